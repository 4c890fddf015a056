"""The table of what the model answered in words: a row a question, whatever its form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.report.formatting import MISSING, estimate, number


@dataclass(frozen=True)
class WordRow:
    """One question: its name, what it is about, and its scores, printed."""

    name: str
    about: str
    n_items: int
    parse_rate: str
    strict: str
    lenient: str
    constant: str
    skill: str
    unscored: str


def word_rows(words: Mapping[str, Any] | None) -> list[WordRow]:
    """The rows of one task, in the order of asking; none where the results hold no answers."""
    return list(_rows(words)) if words else []


def _rows(words: Mapping[str, Any]) -> Iterator[WordRow]:
    for name, row in words["options"].items():
        about = "about another assistant" if row["framing"] == "other" else "about itself"
        yield _row(name.removesuffix("/other"), f"yes or no, {about}", row)
    if words["percent"]:
        yield _row("how likely", "0 to 100, against the rate", words["percent"])
    for name, row in words["values"].items():
        yield _row(name.replace("_", " "), "the value itself", row)


def _row(name: str, about: str, row: Mapping[str, Any]) -> WordRow:
    if "skipped" in row:
        dash = MISSING
        return WordRow(name, row["skipped"], row["n_items"], dash, dash, dash, dash, dash, "")
    constant = row["constant"]
    shown = number(constant) if isinstance(constant, float) else str(constant)
    return WordRow(
        name=name,
        about=about,
        n_items=row["n_items"],
        parse_rate=number(row["parse_rate"]),
        strict=estimate(row["strict"], row["strict_ci"]),
        lenient=number(row["lenient"]),
        constant=f"{number(row['constant_score'])} (always {shown})",
        skill=estimate(row["skill"], row["skill_ci"], signed=True),
        unscored=", ".join(f"{reason}: {count}" for reason, count in row["unscored"].items()),
    )


def words_note(words: Mapping[str, Any]) -> str:
    """How much the answers hang on the asking, in one sentence."""
    spread, gain = words["spread"], words["self_minus_other"]
    parts = []
    if spread["orders_disagree"] is not None:
        parts.append(
            "The two orders of a question are answered differently on "
            f"{_percent(spread['orders_disagree'])} of the items"
        )
    if spread["wordings_disagree"] is not None:
        parts.append(f"two wordings on {_percent(spread['wordings_disagree'])}")
    sentences = [", ".join(parts) + "."] if parts else []
    if gain:
        sentences.append(
            f"Asked about itself it scores {number(gain['strict_gain'], signed=True)} more than asked about another "
            f"assistant: {number(gain['by_format'], signed=True)} by readable answers, "
            f"{number(gain['by_quality'], signed=True)} by better ones (Shapley)."
        )
    return " ".join(sentences)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


NO_ANSWER_READ = (
    "none of its answers in words could be read: trust the log-odds of the options, which need no reading "
    "(the predictor `verbal`), and look at the answers in self_predictions.jsonl"
)
"""What to do where the parse rate is 0."""

NO_ANSWER_READ_NOR_ODDS = (
    "none of its answers in words could be read: look at them in self_predictions.jsonl, and ask an endpoint that "
    "gives log-probabilities, whose log-odds of the options need no reading"
)
"""The same where an endpoint gave no log-probabilities."""

NO_ANSWER_READ_NOR_SCORED = (
    "none of its answers in words could be read: look at them in self_predictions.jsonl, where the log-odds of the "
    "options, which need no reading, stand beside them if the model gives any"
)
"""The same of a task that was skipped, and has no predictor."""


def words_advice(task_result: Mapping[str, Any]) -> str:
    """What a person should know of the answers before quoting them, or an empty string."""
    words = task_result.get("words")
    if not words or words["parse_rate"] != 0:
        return ""
    if task_result.get("skipped"):
        return NO_ANSWER_READ_NOR_SCORED
    by_answers = (task_result.get("verbal") or {}).get("score") == "parsed answers"
    return NO_ANSWER_READ_NOR_ODDS if by_answers else NO_ANSWER_READ
