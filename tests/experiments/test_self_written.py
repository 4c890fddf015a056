from __future__ import annotations

import operator
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.tasks import Item
from experiments.tasks.self_written import SelfWrittenTask
from experiments.tasks.written_questions import known_capitals, read_question
from tests.experiments.scripted import ScriptedRunner

TASK = SelfWrittenTask()
CAPITALS = known_capitals(
    {"France": "Paris", "the Netherlands": "Amsterdam", "Ukraine": ["Kyiv", "Kiev"]}
)
SIGNS = {
    "+": operator.add,
    "plus": operator.add,
    "-": operator.sub,
    "x": operator.mul,
    "times": operator.mul,
}


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return TASK.items()


@given(st.integers(0, 99999), st.sampled_from(sorted(SIGNS)), st.integers(0, 99999))
def test_arithmetic_is_worked_out_by_our_rules(a: int, sign: str, b: int) -> None:
    question, reason = read_question(f"What is {a} {sign} {b}?", CAPITALS)
    assert question is not None
    assert question.answers == (str(SIGNS[sign](a, b)),)
    assert reason == ""


@given(st.from_regex(r"[a-z]{2,15}", fullmatch=True))
def test_words_are_counted_and_their_ends_are_taken(word: str) -> None:
    def answer(text: str) -> tuple[str, ...]:
        question, _ = read_question(text, CAPITALS)
        assert question is not None
        return question.answers

    assert answer(f'How many letters does the word "{word}" have?') == (str(len(word)),)
    assert answer(f"What is the first letter of the word {word}?") == (word[0],)
    assert answer(f"What is the last letter of the word {word}?") == (word[-1],)


@pytest.mark.parametrize(
    ("text", "asked", "answers", "choices"),
    [
        ("\n What is the sum of 12 and 7?\nIt is 19.", "What is 12 + 7?", ("19",), ()),
        ('"What is 1200 \u2212 7?"', "What is 1200 - 7?", ("1193",), ()),
        ("What is the product of 6 and 7?", "What is 6 x 7?", ("42",), ()),
        ("Which is larger, 9 or 10?", "Which is larger, 9 or 10?", ("10",), ("9", "10")),
        ("What is the capital of Netherlands?", "What is the capital of the Netherlands?", ("Amsterdam",), ()),
        ("What is the capital of Ukraine?", "What is the capital of Ukraine?", ("Kyiv", "Kiev"), ()),
    ],
)  # fmt: skip
def test_questions_are_asked_anew_in_one_form(
    text: str, asked: str, answers: tuple, choices: tuple
) -> None:
    question, _ = read_question(text, CAPITALS)
    assert question is not None
    assert (question.text, question.answers, question.choices) == (asked, answers, choices)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("12 + 7 = 19", "no question"),
        ("I cannot do that. What is 1 + 1?", "not in the grammar"),
        ("What is 12 + 7 + 3?", "not in the grammar"),
        ("What is __import__('os').getcwd() + 1?", "not in the grammar"),
        ("What is 9**9**9?", "not in the grammar"),
        ("What is 12345678 + 1?", "not in the grammar"),
        ("Which is larger, 7 or 7?", "has no answer"),
        ("What is the capital of Atlantis?", "country unknown to the rules"),
    ],
)
def test_what_the_grammar_does_not_take_is_unread_with_a_reason(text: str, reason: str) -> None:
    assert read_question(text, CAPITALS) == (None, reason)


@given(st.text())
def test_any_text_is_read_or_given_a_reason(text: str) -> None:
    question, reason = read_question(text, CAPITALS)
    assert (question is None) == bool(reason)


def test_a_group_holds_both_conditions_that_differ_in_the_condition_alone(
    items: list[Item],
) -> None:
    assert len({item.group for item in items}) >= 100
    assert len({item.id for item in items}) == len({item.text for item in items}) == len(items)
    for wrong, right in zip(items[::2], items[1::2], strict=True):
        assert wrong.group == right.group
        assert (wrong.stratum, right.stratum) == ("expected wrong", "expected right")
        assert wrong.messages[:-1] == right.messages[:-1]
        first, second = (item.messages[-1]["content"].split(":") for item in (wrong, right))
        assert first[1] == second[1]
        assert first[0] != second[0]
    for n in (60, 120):
        kinds = Counter(item.meta["type"] for item in items[:n])
        assert min(kinds.values()) >= n / 10


def test_the_examples_follow_the_grammar_and_are_not_of_the_item_itself(items: list[Item]) -> None:
    capitals = known_capitals({"Kenya": "Nairobi"})
    for item in items:
        asked = item.messages[-1]["content"].split(": ")[1]
        for turn, example in zip(item.messages[:-1:2], item.messages[1:-1:2], strict=True):
            assert turn["content"].split(": ")[1] != asked
            _, reason = read_question(example["content"], capitals)
            assert reason in ("", "country unknown to the rules")


@pytest.mark.parametrize("samples", [1, 3])
def test_what_is_observed_of_a_known_model(items: list[Item], samples: int) -> None:
    """It writes one sum when asked for a question that it gets wrong, another otherwise, and fails at the first."""

    def say(asked: str, sample: int) -> str:
        if asked == "What is 2 + 2?":
            return "It is 5."
        if asked == "What is 1 + 1?":
            return "It is 2."
        if "capital" in asked:
            return "Which capital?"
        hard = any(words in asked for words in ("get wrong", "too hard", "incorrectly"))
        return "What is 2 + 2?" if hard else "What is 1 + 1?"

    for item, one in zip(
        items, TASK.observe(items, ScriptedRunner(say, samples=samples)), strict=True
    ):
        assert len(one.judgments) == len(one.completions) == samples
        if item.meta["type"] == "capital":
            assert {judged.outcome for judged in one.judgments} == {None}
            assert {judged.reason for judged in one.judgments} == {"not in the grammar"}
        else:
            expected = int(item.stratum == "expected wrong")
            assert {judged.outcome for judged in one.judgments} == {expected}
            assert one.completions[0].text.endswith("It is 5." if expected else "It is 2.")
