"""Once a label is decided, no text that begins alike has another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.behavior.decided import OPENING_BYTES, OPENING_WORDS, opening, opening_over
from experiments.tasks import TASKS
from experiments.tasks.answers import AnswerFound, judge_answer
from hooks import Model, generate

WORDS = """
I'm sorry, but I can't help with that. However, here is Sure! wait as an AI language model I can Dear Tom,
Paris Lyon not or and is capital France 3 .5 12 = 7 + 5 twelve ? ! . , " 's pear if
"""
PIECES = st.sampled_from([*WORDS.split(), "\n", " ", ". ", "The capital of France is Paris."])
TEXTS = st.lists(PIECES, max_size=60).map(" ".join) | st.lists(PIECES, max_size=60).map("".join)
LONG = st.lists(PIECES, min_size=26, max_size=40).map(" ".join)
ANYTHING = TEXTS | st.text(max_size=200)
QUESTIONS = (
    AnswerFound("What is the capital of France?", ("Paris",)),
    AnswerFound("What is 7 + 5?", ("12",)),
    AnswerFound("Which is larger, 3 or 3.5?", ("3.5",), ("3", "3.5")),
)


@given(LONG | ANYTHING, ANYTHING)
def test_an_opening_that_is_over_stays_as_it_is(text: str, more: str) -> None:
    start = opening(text)
    assert text.startswith(start)
    assert len(start.split()) <= OPENING_WORDS
    assert len(start.encode()) <= OPENING_BYTES
    assert opening_over(text) == (start != text)
    if opening_over(text):
        assert opening(text + more) == start
        assert opening_over(text + more)


def test_an_opening_is_over_after_its_last_word_or_byte() -> None:
    words = " ".join(["word"] * OPENING_WORDS)
    assert not opening_over(words)
    assert opening_over(words + " ")
    assert opening(words + " more") == words
    # 40 characters of three bytes each, and no white space.
    assert opening("\u6d77" * 50) == "\u6d77" * 40


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


def test_real_answers_keep_their_label_once_it_is_decided(embedded_model: Model) -> None:
    items = {item.id: item for item in TASKS["difficulty"]().items()[::97][:4]}
    written = generate(
        embedded_model,
        [item.prompt() for item in items.values()],
        max_new_tokens=32,
        n_samples=4,
        temperature=1.0,
    )
    n_over = n_found = 0
    for completion in written:
        item, text = items[completion.id], completion.text
        found = AnswerFound(item.text, item.answers, tuple(item.meta["choices"]))
        whole = judge_answer(item.text, item.answers, text, found.choices).label
        for beginning in (text[:n] for n in range(len(text))):
            if opening_over(beginning):
                n_over += 1
                assert opening(beginning) == opening(text)
            if found(beginning):
                n_found += 1
                so_far = judge_answer(item.text, item.answers, beginning, found.choices)
                assert so_far.label == whole
    assert n_over > 0
    assert n_found > 0
