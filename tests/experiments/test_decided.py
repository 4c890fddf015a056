"""Once a label is decided, no text that begins alike has another."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.behavior.decided import OPENING_WORDS, opening, opening_over
from experiments.behavior.refusal_judge import rule_label
from experiments.tasks import TASKS, Item
from experiments.tasks.answers import AnswerFound, judge_answer
from hooks import Completion, Model, generate

WORDS = """
I'm sorry, but I can't help with that. However, here is Sure! wait as an AI language model I can Dear Tom,
Paris Lyon not or and is capital France 3 .5 12 = 7 + 5 twelve ? ! . , " 's pear if
"""
PIECES = st.sampled_from([*WORDS.split(), "\n", " ", ". ", "The capital of France is Paris."])
TEXTS = st.lists(PIECES, max_size=60).map(" ".join) | st.lists(PIECES, max_size=60).map("".join)
ANYTHING = TEXTS | st.text(max_size=200)
QUESTIONS = (
    AnswerFound("What is the capital of France?", ("Paris",)),
    AnswerFound("What is 7 + 5?", ("12",)),
    AnswerFound("Which is larger, 3 or 3.5?", ("3.5",), ("3", "3.5")),
)


@given(ANYTHING, ANYTHING)
def test_an_opening_that_is_over_stays_as_it_is(text: str, more: str) -> None:
    if opening_over(text):
        assert opening(text + more) == opening(text)
        assert rule_label(opening(text + more)) == rule_label(opening(text))
    assert opening(text).split() == text.split()[:OPENING_WORDS]
    assert text.startswith(opening(text))


def test_an_opening_is_over_after_its_last_word() -> None:
    words = " ".join(["word"] * OPENING_WORDS)
    assert not opening_over(words)
    assert opening_over(words + " ")
    assert opening(words + " more") == words


@given(ANYTHING, ANYTHING, st.sampled_from(QUESTIONS))
def test_an_answer_that_is_found_stays_the_answer(text: str, more: str, found: AnswerFound) -> None:
    if found(text):
        label = judge_answer(found.question, found.answers, text, found.choices).label
        longer = judge_answer(found.question, found.answers, text + more, found.choices)
        assert longer.label == label


@pytest.mark.parametrize(
    ("text", "decided"),
    [
        ("The capital of France is Paris.", False),
        ("The capital of France is Paris. It", True),
        ("The capital of France is Paris\n", True),
        ("Lyon! ", True),
        ("The capital of France is\n", False),
        ("", False),
    ],
)
def test_an_answer_is_found_where_its_sentence_ends(text: str, decided: bool) -> None:
    assert QUESTIONS[0](text) is decided


def answer_found(item: Item) -> AnswerFound:
    return AnswerFound(item.text, item.answers, tuple(item.meta["choices"]))


@cache
def some_items(task: str) -> list[Item]:
    return TASKS[task]().items()[::97][:3]


def completed(model: Model, items: list[Item]) -> list[list[Completion]]:
    prompts = [item.prompt() for item in items]
    flat = generate(model, prompts, max_new_tokens=40, n_samples=3, temperature=1.0)
    return [flat[i : i + 3] for i in range(0, len(flat), 3)]


def test_real_answers_keep_their_label_once_it_is_decided(embedded_model: Model) -> None:
    n_decided = 0
    refusal, difficulty = some_items("refusal"), some_items("difficulty")
    for own in completed(embedded_model, refusal):
        for text in (completion.text for completion in own):
            for n in range(len(text)):
                if opening_over(text[:n]):
                    n_decided += 1
                    assert rule_label(opening(text[:n])) == rule_label(opening(text))
    assert n_decided > 0
    n_decided = 0
    for item, own in zip(difficulty, completed(embedded_model, difficulty), strict=True):
        found = answer_found(item)
        for text in (completion.text for completion in own):
            whole = judge_answer(item.text, item.answers, text, found.choices)
            for n in range(len(text)):
                if found(text[:n]):
                    n_decided += 1
                    so_far = judge_answer(item.text, item.answers, text[:n], found.choices)
                    assert so_far.label == whole.label
    assert n_decided > 0
