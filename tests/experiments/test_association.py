from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.asked import choose_items
from experiments.config import make_config
from experiments.items import first_groups
from experiments.tasks import Item
from experiments.tasks.association import AssociationTask, five_are_listed, judge_option
from experiments.tasks.difficulty import components
from experiments.tasks.word_lists import bases, listed_words, nearly_names
from hooks import Completion
from tests.experiments.scripted import ScriptedRunner

TASK = AssociationTask()
PUBLISHED = Path(__file__).parents[3] / "shared/data/self_execution_benchmark/association"
WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=8), min_size=5, max_size=8)


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return TASK.items()


def completion(text: str, *, finished: bool = True) -> Completion:
    return Completion("c", 0, text, len(text.split()), finished)


def test_there_are_over_three_hundred_targets_with_two_to_four_options(items: list[Item]) -> None:
    sizes = Counter(item.group for item in items)
    assert len(sizes) >= 300
    assert set(sizes.values()) <= {2, 3, 4}
    assert [group for group, _ in groupby(items, key=lambda item: item.group)] == list(sizes)
    assert items == AssociationTask().items()
    assert len({item.stratum for item in items}) == 16


def test_no_word_in_any_form_is_shared_between_groups(items: list[Item]) -> None:
    keys = [
        [item.group, *bases(item.fields["target"]), *bases(item.fields["option"])] for item in items
    ]
    examples = {
        word.strip()
        for message in items[0].messages[:-1]
        if message["role"] == "assistant"
        for word in message["content"].split(",")
    }
    assert len(set(components(keys))) == len({item.group for item in items})
    assert not [item for item in items if nearly_names(sorted(examples), item.fields["option"])]


@pytest.mark.parametrize("n", [60, 200, 400])
def test_a_prefix_holds_every_topic_in_about_its_share(items: list[Item], n: int) -> None:
    prefix = first_groups(items, n)
    overall, here = Counter(i.stratum for i in items), Counter(i.stratum for i in prefix)
    for stratum, count in overall.items():
        assert here[stratum] / len(prefix) == pytest.approx(count / len(items), abs=0.05)


def test_the_model_lists_words_once_a_target_and_never_reads_an_option(items: list[Item]) -> None:
    run = ScriptedRunner(lambda asked, _: "Sea, " + ", ".join(f"w{i}" for i in range(4)))
    TASK.observe(items[:20], run)
    assert not any("Consider" in asked for asked in run.asked)
    assert len(set(run.asked)) == len({item.group for item in items[:20]})
    for item, asked in zip(items, run.asked, strict=False):
        assert (
            item.messages[-1]["content"]
            == f'Consider the word "{item.fields["option"]}".\n\n{asked}'
        )
        assert asked == item.quoted


def test_who_names_the_first_option_of_every_target_is_scored_so(items: list[Item]) -> None:
    firsts = {item.fields["prompt"]: item.fields["option"] for item in reversed(items)}
    run = ScriptedRunner(lambda asked, _: f"1. Qqq\n2. Xxx\n3. {firsts[asked].upper()}")
    seen = TASK.observe(items, run)
    for item, one in zip(items, seen, strict=True):
        assert one.judgments[0].outcome == (firsts[item.quoted] == item.fields["option"])


def test_the_sixth_word_does_not_count_and_prose_is_unscored() -> None:
    assert judge_option(completion("a, b, c, d, e, sea"), "sea").outcome == 0
    assert judge_option(completion("a, b, c, d, sea, e"), "Sea").outcome == 1
    prose = judge_option(completion("The ocean is a vast and mysterious realm of its own"), "ocean")
    assert prose.outcome is None
    assert prose.reason == "no list of words"


def test_another_form_of_the_word_is_the_lenient_judges_alone() -> None:
    judged = judge_option(completion("waves, salt"), "wave")
    assert judged.votes == {"exact": "absent", "stem": "named"}
    assert judged.outcome == 0


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("1. Sea\n2. Wave\n3. **Blue**: the color", ["sea", "wave", "blue"]),
        ("Here are five words:\n\n* Sea\n* Wave (big)", ["sea", "wave"]),
        ("cold, white and soft.", ["cold", "white", "soft"]),
        ('The words for "thunder" are: thunder, bolt. I like them.', ["thunder", "bolt"]),
        ('["South America", "camel"]', ["south america", "camel"]),
        ('```json\n{"words": ["sea", "wave"]}\n```', ["sea", "wave"]),
        ("cold white soft quiet winter", ["cold", "white", "soft", "quiet", "winter"]),
        ("Sea\nWave\nSalt", ["sea", "wave", "salt"]),
        ("sea; wave; sea", ["sea", "wave", "sea"]),
        ("The ocean is a vast and mysterious realm, teeming with life of every kind", []),
        ("", []),
        ("...", []),
    ],
)
def test_lists_are_read_in_the_forms_that_models_write(reply: str, expected: list[str]) -> None:
    assert listed_words(reply) == expected


@given(WORDS, st.sampled_from([", ", "\n", "; "]), st.integers(0, 60))
def test_a_reply_that_is_decided_keeps_its_first_five_words(
    words: list[str], mark: str, end: int
) -> None:
    reply = mark.join(words)
    so_far = reply[:end]
    if five_are_listed(so_far):
        assert listed_words(so_far, finished=False)[:5] == listed_words(reply)[:5]


@given(WORDS, st.integers(1, 60))
def test_half_a_word_is_not_taken_for_a_word(words: list[str], end: int) -> None:
    reply = ", ".join(words)
    cut = listed_words(reply[:end], finished=False)
    assert cut[:-1] == words[: max(len(cut) - 1, 0)]
    assert not cut or cut[-1] == words[len(cut) - 1] or "," not in reply[:end]


def test_a_file_of_targets_becomes_items_with_targets_that_name_each_other_in_a_group(
    tmp_path: Path,
) -> None:
    path = tmp_path / "targets.json"
    path.write_text(json.dumps({"Cat": ["pet", "Dog", "dog"], "Dog": ["bark"], "Sun": ["Pet"]}))
    items = TASK.read_items(path)
    assert items is not None
    assert [(item.fields["target"], item.fields["option"]) for item in items] == [
        ("Sun", "pet"),
        ("Cat", "pet"),
        ("Cat", "dog"),
        ("Dog", "bark"),
    ]
    assert items[1].group == items[3].group != items[0].group
    assert items[0].meta["entity"] == items[1].meta["entity"]
    assert TASK.read_items(tmp_path / "items.jsonl") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "holds no target"),
        ("{}", "holds no target"),
        ("[" * 100_000, "is no JSON"),
        ('{"cat": []}', "target 'cat'"),
        ('{"cat": [""]}', "target 'cat'"),
        ('{"cat": "dog"}', "target 'cat'"),
        ('{"cat": ["dog", 3]}', "target 'cat'"),
        ('{"cat": ["dog"], "Cat": ["pet"]}', "'Cat' occurs twice"),
        ('{"cat": ', "is no JSON"),
    ],
)
def test_a_faulty_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "targets.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        TASK.read_items(path)
    assert "\n" not in str(caught.value)


def test_a_file_in_another_encoding_or_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    path.write_text('{"cat": ["dog"]}', encoding="utf-16")
    with pytest.raises(ValueError, match=r"targets\.json is not UTF-8 text .*; save it as UTF-8"):
        TASK.read_items(path)
    path.write_text('{"cat": ["dog"]}', encoding="utf-8-sig")
    (item,) = TASK.read_items(path) or []
    assert item.fields["option"] == "dog"


def test_rows_of_a_table_and_columns_of_targets_are_refused(tmp_path: Path) -> None:
    rows, targets = tmp_path / "rows.jsonl", tmp_path / "targets.json"
    rows.write_text('{"text": "cat"}\n')
    targets.write_text('{"cat": ["dog"]}')
    with pytest.raises(
        ValueError, match=r"row '1' names no option word; give one object of targets"
    ):
        choose_items(TASK, make_config({"tasks": "association", "items": rows}))
    columns = {"tasks": "association", "items": targets, "columns": "text=cat"}
    with pytest.raises(ValueError, match=r"^columns: .*targets\.json has none to map"):
        choose_items(TASK, make_config(columns))


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the released files are not here")
def test_the_published_targets_are_read_whole() -> None:
    path = PUBLISHED / "targets.json"
    items = TASK.read_items(path)
    assert items is not None
    options = json.loads(path.read_text())
    assert len({item.fields["target"] for item in items}) == len(options) == 488
    assert len(items) == sum(
        len({word.lower() for word in own if word}) for own in options.values()
    )
    assert len({item.group for item in items}) > 300
    assert len({item.id for item in items}) == len(items)
    sixty = first_groups(items, 60)
    assert len(sixty) >= 56
    assert len({item.group for item in sixty}) >= 15
