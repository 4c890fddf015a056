from __future__ import annotations

import unicodedata
from collections import Counter
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.items import first_groups
from experiments.tasks import TASKS, Choice, Item, families
from experiments.tasks.answer_properties import (
    beyond_medium,
    characters,
    first_word,
    length_bin,
    three_characters,
    whole_first_word,
    words,
)
from experiments.tasks.option_letter import OptionLetterTask
from experiments.tasks.properties import PROPERTY_TASKS, LengthBinTask, PropertyTask
from hooks import Completion
from probes import skill
from tests.experiments.scripted import ScriptedRunner

NAMES = families()["properties"]
ANSWERS = (
    "The sky is blue.",
    "I'm sorry, but I cannot do that for you today, as I am only a small program without hands.",
    "  **Apples**, pears and plums are sold at the market.",
    "1. Bread\n2. Butter",
    "B",
    "(A) is the one.",
    '"\u00c9t\u00e9" is French.',
    "\U0001f31f\U0001f31f",
)


def task_of(name: str) -> PropertyTask:
    task = TASKS[name]()
    assert isinstance(task, PropertyTask)
    return task


def completion(text: str, *, finished: bool = True) -> Completion:
    return Completion("c", 0, text, len(text.split()), finished)


def answer_to(asked: str, sample: int = 0) -> str:
    return ANSWERS[(len(asked) + sample) % len(ANSWERS)]


@pytest.fixture(scope="module")
def pool() -> list[Item]:
    return PROPERTY_TASKS[0]().items()


def test_the_family_has_the_seven_properties() -> None:
    assert NAMES == (
        "first_character",
        "second_character",
        "third_character",
        "first_word",
        "vowel",
        "length_bin",
        "option_letter",
    )


def test_the_pool_is_large_and_the_same_for_all(pool: list[Item]) -> None:
    assert len(pool) >= 150
    assert len({item.group for item in pool}) >= 100
    assert max(Counter(item.group for item in pool).values()) == 2
    assert [group for group, _ in groupby(pool, key=lambda item: item.group)] == list(
        dict.fromkeys(item.group for item in pool)
    )
    for task in PROPERTY_TASKS:
        assert [item.text for item in task().items()] == [item.text for item in pool]


def test_sixty_items_hold_every_stratum_of_the_pool(pool: list[Item]) -> None:
    sixty = first_groups(pool, 60)
    assert {item.stratum for item in sixty} == {item.stratum for item in pool}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The sky", "THESKY"),
        ("  **\"I'm** here", "IMHERE"),
        ("1. Apples", "1APPLES"),
        ("\u00c9t\u00e9", "ETE"),
        ("- yes_no", "YESNO"),
        ("\U0001f31f !", ""),
    ],
)
def test_characters_are_letters_and_digits_in_capitals(answer: str, expected: str) -> None:
    assert characters(answer) == expected


@given(st.text())
def test_characters_are_those_of_a_search_by_unicode_category(answer: str) -> None:
    folded = unicodedata.normalize("NFKD", answer)
    kept = [c for c in folded if unicodedata.category(c)[0] == "L" or c.isnumeric()]
    assert characters(answer) == "".join(kept).upper()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("I\u2019m here, well-known.", ["i'm", "here", "well-known"]),
        ("1. **Apples**", ["1", "apples"]),
        ("'quoted' - word", ["quoted", "word"]),
        ("...", []),
    ],
)
def test_words_keep_their_apostrophes_and_hyphens(answer: str, expected: list[str]) -> None:
    assert words(answer) == expected


def test_lengths_lie_in_three_bins_and_are_unknown_where_the_budget_ends_first() -> None:
    counts = {n: length_bin(completion("word " * n)) for n in (0, 1, 5, 6, 14, 15, 40)}
    assert counts == {
        0: None,
        1: "short",
        5: "short",
        6: "medium",
        14: "medium",
        15: "long",
        40: "long",
    }
    assert length_bin(completion("word " * 14, finished=False)) is None
    assert length_bin(completion("word " * 15, finished=False)) == "long"


def test_half_a_first_word_is_unknown() -> None:
    assert first_word(completion("Portu", finished=False)) is None
    assert first_word(completion("Portugal is", finished=False)) == "portugal"
    assert first_word(completion("Portugal")) == "portugal"
    assert first_word(completion("...")) is None


@given(st.text("ab ,.'-\n", max_size=60), st.integers(0, 60))
def test_a_decided_answer_keeps_its_value_however_it_goes_on(answer: str, end: int) -> None:
    so_far = answer[:end]
    if three_characters(so_far):
        assert characters(so_far)[:3] == characters(answer)[:3]
    if whole_first_word(so_far):
        assert first_word(completion(so_far, finished=False)) == first_word(completion(answer))
    if beyond_medium(so_far):
        assert length_bin(completion(answer)) == "long"


@pytest.mark.parametrize(
    ("name", "text", "value", "outcome"),
    [
        ("first_character", "*The* sky", "T", 0),
        ("first_character", "My dog", "M", 1),
        ("first_character", "7 dogs", "digit", 0),
        ("second_character", "The sky", "H", 1),
        ("second_character", "I am", "A", 1),
        ("second_character", "In", "N", 0),
        ("third_character", "The", "E", 1),
        ("third_character", "I go", "O", 0),
        ("third_character", "Hi", None, None),
        ("vowel", "\u00c9t\u00e9", "E", 1),
        ("vowel", "Yes", "Y", 0),
        ("vowel", "8 eggs", "digit", 0),
        ("first_word", '"The sky', "the", 1),
        ("first_word", "Then it", "then", 0),
        ("length_bin", "Yes.", "short", 0),
        ("length_bin", "so " * 20, "long", 1),
        ("option_letter", "A) eagle", "A", 1),
        ("option_letter", "It is the horse.", "B", 0),
        ("option_letter", "A fish swims", None, None),
    ],
)
def test_an_answer_is_read_as_documented(
    name: str, text: str, value: str | None, outcome: int | None
) -> None:
    task = task_of(name)
    item = next(
        i
        for i in task.items()
        if "Which of these animals can fly?" in i.text or name != "option_letter"
    )
    seen = task.observe([item], ScriptedRunner(lambda asked, sample: text))[0]
    assert seen.judgments[0].outcome == outcome
    if outcome is not None:
        assert seen.judgments[0].label == value
    else:
        assert seen.judgments[0].reason == task.no_value
    if task.value_questions:
        assert seen.values == ({} if value is None else {name: value})


def test_of_several_answers_the_commonest_value_is_the_truth() -> None:
    texts = ["yes", "word " * 9, "no", "maybe"]
    run = ScriptedRunner(lambda asked, sample: texts[sample], samples=4)
    task = LengthBinTask()
    seen = task.observe(task.items()[:1], run)[0]
    assert [judgment.label for judgment in seen.judgments] == ["short", "medium", "short", "short"]
    assert seen.values == {"length_bin": "short"}


def test_of_several_answers_all_values_that_are_commonest_are_the_truth() -> None:
    texts = ["Cats purr.", "Dogs bark.", "Dogs bite.", "Cats bite."]
    run = ScriptedRunner(lambda asked, sample: texts[sample], samples=4)
    for name, truth, wrong in (
        ("first_word", ["cats", "dogs"], "birds"),
        ("first_character", ["C", "D"], "B"),
    ):
        task = task_of(name)
        (form,) = (question.form for question in task.value_questions)
        seen = task.observe(task.items()[:1], run)[0]
        assert seen.values == {name: truth}
        assert [form.score(one, truth) for one in (*truth, wrong)] == [1, 1, 0]
        assert set(form.constants([truth])) >= set(truth)


@pytest.mark.parametrize("name", NAMES)
def test_constants_have_no_skill_and_an_oracle_has_all_there_is(name: str) -> None:
    task = task_of(name)
    items = task.items()
    seen = task.observe(items, ScriptedRunner(answer_to))
    outcome = np.array([one.judgments[0].outcome for one in seen], dtype=float)
    known = ~np.isnan(outcome)
    best = max(outcome[known].mean(), 1 - outcome[known].mean())
    assert 0 < outcome[known].mean() < 1
    assert skill(outcome[known].astype(int), np.full(known.sum(), outcome[known].mean() > 0.5)) == 0
    assert skill(outcome[known].astype(int), outcome[known]) == pytest.approx(1 - best)
    for question in task.value_questions:
        truths = [one.values[question.name] for one in seen if one.values]
        form = question.form
        assert all(form.score(form.parse(truth)[0], truth) == 1 for truth in truths)
        scores = [np.mean([form.score(c, t) for t in truths]) for c in form.constants(truths)]
        assert max(scores) == Counter(truths).most_common(1)[0][1] / len(truths)
        if isinstance(form, Choice):
            assert set(truths) <= set(form.options)


def test_every_letter_is_an_option_of_its_question() -> None:
    for item in OptionLetterTask().items():
        options = item.meta["choices"]
        for letter, option in zip("ABCD", options, strict=False):
            assert f"({letter}) {option}" in item.text


def test_the_values_of_a_letter_question_are_parsed_from_what_models_write() -> None:
    form = task_of("first_character").value_questions[0].form
    assert form.parse("T") == ("T", "")
    assert form.parse('The letter would be "S".') == ("S", "")
    assert form.parse("digit") == ("digit", "")
    assert form.parse("It would be a letter")[0] is None
