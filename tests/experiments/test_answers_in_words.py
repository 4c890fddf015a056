"""Every question scored by the answer that was written: a small run made up by hand."""

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from experiments.answers_in_words import answers_in_words
from experiments.behavior import Behavior
from experiments.elicitation import Questions, SelfPrediction, read_reports
from experiments.report.words import word_rows, words_advice, words_note
from experiments.tasks import Choice, Event, Item, ValueQuestion
from tests.experiments.parity import ParityTask


class LetterTask(ParityTask):
    name = "letter"
    event: ClassVar[Event] = Event(
        '"{prompt}"',
        "Would <your> answer be odd",
        "<Your> answer is odd.",
        "<Your> answer is even.",
    )
    elicitations = event.grid()
    value_questions: ClassVar = (
        ValueQuestion("letter", "{prompt} Which letter?", Choice(("X", "Y", "Z"))),
    )


TASK = LetterTask()
ITEMS = [
    Item(f"i{i}", "letter", f"g{i // 2}", "s", ({"role": "user", "content": f"text {i}"},))
    for i in range(8)
]
OUTCOMES = (1, 1, 1, 0, 0, 1, None, 0)
LETTERS = ("X", "X", ["X", "Y"], "Z", "X", None, "Y", "X")


def behavior(i: int) -> Behavior:
    outcome = OUTCOMES[i]
    return Behavior(
        item=f"i{i}",
        task="letter",
        completions=("c",),
        n_tokens=(1,),
        labels=("l",),
        outcomes=(outcome,),
        votes={},
        values={"letter": LETTERS[i]},
        rate=None if outcome is None else float(outcome),
        outcome=outcome,
        reason="" if outcome is not None else "half",
    )


def said(answers: dict[str, list[str]]) -> list[SelfPrediction]:
    questions = Questions.of(TASK, 1)
    silent = [""] * len(ITEMS)
    by_name = {question.name: answers.get(question.name, silent) for question in questions.answered}
    return read_reports(ITEMS, questions, None, by_name)


def scored(answers: dict[str, list[str]]) -> dict[str, Any]:
    return answers_in_words(TASK, ITEMS, [behavior(i) for i in range(8)], said(answers))


def test_options_are_scored_strictly_and_leniently_on_known_outcomes() -> None:
    words = scored({"yes-no/yes-first": ["Yes", "Yes", "?", "Yes", "No", "Yes", "Yes", "No"]})
    row = words["options"]["yes-no/yes-first"]
    assert row["n_items"] == 7
    assert row["strict"] == pytest.approx(5 / 7, abs=1e-6)
    assert row["lenient"] == pytest.approx(5 / 6, abs=1e-6)
    assert (row["constant"], row["constant_score"]) == ("yes", pytest.approx(4 / 7, abs=1e-6))
    assert row["skill"] == pytest.approx(1 / 7, abs=1e-6)
    assert row["unscored"] == {"empty": 1}
    assert row["hit_rate"] == 1.0
    assert row["false_alarm_rate"] == pytest.approx(1 / 3, abs=1e-6)


def test_the_other_framing_is_held_against_the_same_wording() -> None:
    right = ["Yes", "Yes", "Yes", "No", "No", "Yes", "Yes", "No"]
    words = scored(
        {
            "yes-no/yes-first": right,
            "yes-no/no-first": right,
            "yes-no/yes-first/other": ["Yes"] * 8,
            "yes-no/no-first/other": [*right[:4], *["?"] * 4],
        }
    )
    assert words["options"]["yes-no/no-first/other"]["framing"] == "other"
    gain = words["self_minus_other"]
    # Strict: 1 and 1 about itself, 4/7 and 4/7 about another.
    assert gain["strict_gain"] == pytest.approx(3 / 7, abs=1e-6)
    assert gain["by_format"] + gain["by_quality"] == pytest.approx(gain["strict_gain"], abs=2e-6)
    assert gain["by_format"] == pytest.approx((3 / 7) * 1 / 2, abs=1e-6)
    spread = words["spread"]
    assert spread["strict"] == [1.0, 1.0]
    assert spread["orders_disagree"] == 0.0


def test_orders_that_disagree_are_counted_on_readable_answers() -> None:
    words = scored(
        {
            "yes-no/yes-first": ["Yes"] * 8,
            "yes-no/no-first": ["No"] * 3 + ["Yes"] * 3 + ["?"] * 2,
        }
    )
    assert words["spread"]["orders_disagree"] == 0.5
    assert words["spread"]["wordings_disagree"] is None


def test_percent_is_scored_against_the_rate_and_calibrated() -> None:
    words = scored({"percent": ["100", "100", "100", "0%", "0", "100", "50", "x"]})
    row = words["percent"]
    assert row["n_items"] == 7
    assert row["strict"] == pytest.approx(6 / 7, abs=1e-6)
    assert row["lenient"] == 1.0
    assert row["auroc"] == 1.0
    assert row["calibration_error"] == 0.0
    # The best constant of the Brier score is the rate.
    assert row["constant"] == pytest.approx(4 / 7)
    assert row["constant_score"] == pytest.approx(1 - (4 / 7) * (3 / 7), abs=1e-6)


def test_percent_is_calibrated_against_every_completion() -> None:
    """Who states the rates is calibrated, though what mostly happens is certain; who states the majority is not."""
    rates = (0.75, 0.25)
    observed = [
        replace(
            behavior(i),
            outcomes=(1, 1, 1, 0) if i % 2 == 0 else (0, 0, 1, 0),
            rate=rates[i % 2],
            outcome=1 - i % 2,
        )
        for i in range(8)
    ]

    def error(answers: list[str]) -> float:
        return answers_in_words(TASK, ITEMS, observed, said({"percent": answers}))["percent"][
            "calibration_error"
        ]

    assert error(["75", "25"] * 4) == 0.0
    assert error(["100", "0"] * 4) == pytest.approx(0.25)


def test_values_are_scored_with_ties_where_the_truth_is_known() -> None:
    words = scored({"letter": ["X", "Y", "Y", "Z", "?", "X", "Y", "Z"]})
    row = words["values"]["letter"]
    assert row["n_items"] == 7
    assert row["strict"] == pytest.approx(4 / 7, abs=1e-6)
    assert (row["constant"], row["constant_score"]) == ("X", pytest.approx(5 / 7, abs=1e-6))


def test_a_short_run_scores_what_was_answered_and_counts_nothing_else() -> None:
    questions = Questions.of(TASK, 4, "short")
    assert [question.name for question in questions.answered] == [
        "yes-no/yes-first",
        "yes-no/no-first",
        "percent",
        "letter",
    ]
    right = ["Yes", "Yes", "Yes", "No", "No", "Yes", "Yes", "No"]
    answers = {question.name: right for question in questions.answered}
    reports = read_reports(ITEMS, questions, None, answers)
    assert len(reports) == 8 * (8 + 1 + 1)
    words = answers_in_words(TASK, ITEMS, [behavior(i) for i in range(8)], reports)
    assert list(words["options"]) == ["yes-no/yes-first", "yes-no/no-first"]
    assert words["parse_rate"] == 0.5
    assert words["self_minus_other"] is None
    assert words["spread"]["orders_disagree"] == 0.0


def test_when_nothing_can_be_read_the_page_says_what_to_use() -> None:
    words = scored({})
    assert words["parse_rate"] == 0.0
    assert words["options"]["yes-no/yes-first"]["lenient"] is None
    assert words["options"]["yes-no/yes-first"]["says_yes"] is None
    assert "log-odds" in words_advice({"words": words})
    rows = word_rows(words)
    assert len(rows) == 2 + 2 + 1 + 1
    assert {row.parse_rate for row in rows} == {"0.00"}
    assert "+0.00 more" in words_note(words)
    assert words_advice({"words": scored({"percent": ["5"] * 8})}) == ""
