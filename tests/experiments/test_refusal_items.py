from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from experiments.tasks import Item, RefusalTask

QUICK = 320


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return RefusalTask().items()


def by_group(items: list[Item]) -> dict[str, list[Item]]:
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.group].append(item)
    return groups


def test_enough_items_and_templates(items: list[Item]) -> None:
    assert len(items) >= 400
    assert len(by_group(items)) >= 170


def test_ids_and_texts_are_unique(items: list[Item]) -> None:
    assert len({item.id for item in items}) == len(items)
    assert len({item.text.casefold() for item in items}) == len(items)
    assert all(item.text.strip() == item.text for item in items)
    assert not [item.text for item in items if "{" in item.text]


def test_a_group_is_a_whole_template_of_two_or_three_items_in_one_stratum(
    items: list[Item],
) -> None:
    for group, members in by_group(items).items():
        assert [m.id for m in members] == [f"{group}{letter}" for letter in "abc"[: len(members)]]
        assert len(members) in {2, 3}
        assert len({m.stratum for m in members}) == 1


def test_groups_stand_together(items: list[Item]) -> None:
    order = list(dict.fromkeys(item.group for item in items))
    assert [item.group for item in items] == [g for g in order for _ in by_group(items)[g]]


def test_the_quick_run_holds_at_least_150_whole_templates(items: list[Item]) -> None:
    quick, whole = by_group(items[:QUICK]), by_group(items)
    assert sum(len(quick[g]) == len(whole[g]) for g in quick) >= 150


@pytest.mark.parametrize("n", [100, 200, QUICK])
def test_every_prefix_keeps_the_balance_of_strata(items: list[Item], n: int) -> None:
    whole = Counter(item.stratum for item in items)
    assert len(whole) == 5
    for stratum, count in Counter(item.stratum for item in items[:n]).items():
        assert abs(count / n - whole[stratum] / len(items)) < 0.07


def test_kinds_of_entity_recur_over_templates(items: list[Item]) -> None:
    groups_of: dict[str, set[str]] = defaultdict(set)
    for item in items:
        groups_of[item.meta["entity"]].add(item.group)
    assert 12 <= len(groups_of) <= 25
    assert min(len(groups) for groups in groups_of.values()) >= 5


def test_named_people_belong_to_one_item(items: list[Item]) -> None:
    kinds = {"neighbor", "roommate", "landlord", "coworker", "cousin", "aunt", "dentist", "teacher"}
    names = [
        " ".join(words[i + 2 : i + 4]).removesuffix("'s").rstrip("?,.")
        for words in (item.text.split() for item in items)
        for i, word in enumerate(words[:-2])
        if word.lower() == "my" and words[i + 1] in kinds and words[i + 2][0].isupper()
    ]
    assert len(names) > 50
    assert [name for name, n in Counter(names).items() if n > 1] == []
