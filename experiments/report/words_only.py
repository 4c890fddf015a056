"""What the page and the one sentence say of a model that is known by its words alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.report.formatting import auroc, gain
from experiments.report.phrases import Phrase

NOT_DIAGNOSED = "Words alone: no stage"


def is_words_only(task_result: Mapping[str, Any]) -> bool:
    """Whether the run had no activations to read."""
    return "activations" in task_result


def words_only_phrases(model: str, task_result: Mapping[str, Any]) -> list[Phrase]:
    """Whether the words foretell the outcome, and whether the text would do as well."""
    verbal, minus_text = task_result["verbal"], task_result["gap"]["verbal_minus_text"]
    low, high = verbal["ci"]
    foretold = f"whether it {task_result['behavior']}"
    score = f"AUROC {auroc(verbal)} by its {verbal['score']}"
    if low is not None and low > 0.5:
        head = f"{model}: its words foretell {foretold}"
    elif high is not None and high < 0.5:
        head = f"{model}: its words say the opposite of {foretold}"
    else:
        return [
            Phrase(f"{model}: its words are not shown to foretell {foretold}", score),
            Phrase("; without activations nothing tells whether it knows more than it says."),
        ]
    low, high = minus_text["ci"]
    if low is not None and low > 0:
        beside = ", better than the text of the prompt does"
    elif high is not None and high < 0:
        beside = ", worse than the text of the prompt does"
    else:
        beside = ", and the text of the prompt may do as well"
    return [
        Phrase(head, score),
        Phrase(beside, f"difference {gain(minus_text)}"),
        Phrase("; without activations nothing tells whether it knows more than it says."),
    ]


def words_only_limits(task_result: Mapping[str, Any]) -> Iterator[str]:
    """What a reader has to know of an endpoint before quoting the numbers."""
    if task_result["verbal"]["score"] != "log-odds":
        yield (
            "The endpoint gave no log-probabilities: the verbal score is the parsed answers, averaged over wordings "
            "and orders, which has few values and is not comparable with log-odds."
        )
    else:
        yield (
            "The endpoint tells the likeliest first tokens alone: an option that is not among them counts with the "
            "most that it can have, so that log-odds are nearer to 0 than they are."
        )
    yield (
        "An endpoint may change what answers under a name, and may honor neither a seed nor a temperature of 0."
    )
    yield "No other model was asked: nothing here says that these words tell more than another's would."
