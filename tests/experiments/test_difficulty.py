from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.tasks import Item
from experiments.tasks.answers import tokens
from experiments.tasks.difficulty import DifficultyTask, components

TASK = DifficultyTask()


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return TASK.items()


def test_components_join_rows_that_share_a_key() -> None:
    keys = [["a"], ["b"], ["c", "a"], [], ["b", "d"], ["c"], []]
    assert components(keys) == [0, 1, 0, 2, 1, 0, 3]


@given(st.lists(st.lists(st.integers(0, 12), max_size=3), max_size=15))
def test_components_match_a_transitive_closure(keys: list[list[int]]) -> None:
    n = len(keys)
    joined = [[i == j or bool(set(keys[i]) & set(keys[j])) for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                joined[i][j] |= joined[i][k] and joined[k][j]
    found = components(keys)
    assert [[found[i] == found[j] for j in range(n)] for i in range(n)] == joined


def test_there_are_enough_items_groups_and_strata(items: list[Item]) -> None:
    assert len(items) >= 400
    assert len({item.group for item in items}) >= 180
    sizes = Counter(item.group for item in items)
    assert set(sizes.values()) <= {2, 3, 4}
    assert len({item.stratum for item in items}) >= 8
    assert min(Counter(item.stratum for item in items).values()) >= 20


def test_ids_and_texts_are_unique_and_the_list_is_always_the_same(items: list[Item]) -> None:
    assert len({item.id for item in items}) == len({item.text for item in items}) == len(items)
    assert items == DifficultyTask().items()
    assert items[0].id == "difficulty-0001a"


def test_no_entity_is_shared_between_groups(items: list[Item]) -> None:
    groups_of: dict[str, set[str]] = defaultdict(set)
    for item in items:
        for key in item.meta["shares"]:
            groups_of[key].add(item.group)
    assert all(len(groups) == 1 for groups in groups_of.values())


@pytest.mark.parametrize("n", [120, 200, 320])
def test_a_prefix_of_whole_groups_keeps_the_balance_of_strata(items: list[Item], n: int) -> None:
    prefix = items[:n]
    assert prefix[-1].group != items[n].group
    overall, here = Counter(i.stratum for i in items), Counter(i.stratum for i in prefix)
    for stratum, count in overall.items():
        assert here[stratum] / n == pytest.approx(count / len(items), abs=0.02)


def test_the_quick_run_has_a_hundred_groups(items: list[Item]) -> None:
    assert len({item.group for item in items[:320]}) >= 100


def test_questions_are_short_and_name_their_options(items: list[Item]) -> None:
    for item in items:
        assert len(item.text.split()) <= 22
        assert item.answers
        assert item.meta["type"]
        assert all(choice in item.text for choice in item.meta["choices"])
        if item.meta["choices"]:
            assert set(item.answers) <= set(item.meta["choices"])


def test_a_free_question_does_not_contain_its_answer(items: list[Item]) -> None:
    for item in items:
        if item.meta["choices"] or item.stratum in {"sums", "products", "spelling"}:
            continue
        if item.answers[0] in {"sheep", "salmon"}:
            continue
        words = tokens(item.text)
        assert not any(set(tokens(answer)) <= set(words) for answer in item.answers), item.text


def test_each_reference_answer_is_judged_right_and_another_wrong(items: list[Item]) -> None:
    for item in items:
        for answer in item.answers:
            (judgment,) = TASK.judge([item], [f"The answer is {answer}."])
            assert judgment.outcome == 1, (item.text, answer)
        (other,) = TASK.judge([item], ["The answer is 123456789 blue."])
        assert other.outcome == 0


def test_arithmetic_is_right(items: list[Item]) -> None:
    checked = 0
    for item in items:
        numbers = [int(token) for token in tokens(item.text) if token.lstrip("-").isdigit()]
        if item.stratum not in {"sums", "products"}:
            continue
        a, b = numbers
        plus = "addition" in item.meta["entity"]
        minus = "subtraction" in item.meta["entity"]
        times = "multiplication" in item.meta["entity"]
        expected = a + b if plus else a - b if minus else a * b if times else a / b
        assert float(item.answers[0]) == expected
        checked += 1
    assert checked >= 60


def test_elicitations_quote_first_ask_last_and_come_in_both_orders() -> None:
    elicitations = TASK.elicitations
    assert len(elicitations) == 8
    assert len({e.name for e in elicitations}) == 8
    pairs = list(zip(elicitations[::2], elicitations[1::2], strict=True))
    assert len({first.paraphrase for first, _ in pairs}) == 4
    for first, second in pairs:
        assert first.paraphrase == second.paraphrase
        assert first.order != second.order
        assert first.template.startswith('"{prompt}"\n\n')
        assert first.template.count("{prompt}") == second.template.count("{prompt}") == 1
        assert "you" in first.template.lower().split("\n\n")[1]
    letters = pairs[0]
    assert (letters[0].yes, letters[1].yes) == ("A", "B")


def test_no_reference_answer_enters_a_self_prediction_prompt(items: list[Item]) -> None:
    for elicitation in TASK.elicitations:
        frames = set()
        for item in items:
            assert elicitation.template.count("{prompt}") == 1
            messages = elicitation.prompt(item).messages
            assert messages is not None
            assert len(messages) == 1
            before, after = messages[0]["content"].split(item.text)
            frames.add((before, after))
        assert len(frames) == 1, "the words around the quoted question depend on the item"
