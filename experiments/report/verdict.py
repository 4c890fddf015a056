"""The one sentence of a task, and what its numbers allow it to say.

"decodable" and "beyond the text" are earned as everywhere (`experiments.claims`). Nothing here was intervened on and
no other model was read, so stronger words are out of reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.breakdown import best_at_slot
from experiments.claims import is_beyond_text, is_decodable
from experiments.report.formatting import auroc, counted, estimate, gain, p_value
from experiments.report.phrases import Phrase, sentence
from experiments.report.words_only import is_words_only, words_only_phrases

STAGES = {
    "not_beyond_text": "Not more than the text",
    "not_transported": "Lost before the answer slot",
    "not_read_out": "Lost between the answer slot and the words",
    "unparsed": "Said, but not readably",
    "miscalibrated": "Said, but leaning to one side",
    "faithful": "Said as well as it is known",
    "undetermined": "Undecided",
}
"""Stage of the breakdown -> its name on the page."""


def stage(task_result: Mapping[str, Any]) -> str:
    """The task's stage; ValueError if it is none that the report can word."""
    name = task_result["breakdown"]["stage"]
    if name not in STAGES:
        raise ValueError(f"breakdown.stage is {name!r}: expected one of {', '.join(STAGES)}")
    return str(name)


def verdict(model: str, task_result: Mapping[str, Any]) -> list[Phrase]:
    """The phrases of the sentence, to be joined by spaces."""
    if is_words_only(task_result):
        return words_only_phrases(model, task_result)
    return [*_head(model, task_result), *_tail(task_result), Phrase(".")]


def verdict_sentence(model: str, task_result: Mapping[str, Any]) -> str:
    """The sentence as plain text; why there is none where the task was skipped."""
    if task_result["skipped"]:
        return f"{model}: skipped, {task_result['skipped']}."
    return sentence(verdict(model, task_result))


def _head(model: str, task_result: Mapping[str, Any]) -> list[Phrase]:
    probe = task_result["probe"]
    subject, figures = f"{model}: whether it {task_result['behavior']}", f"AUROC {auroc(probe)}"
    if not is_decodable(task_result):
        chance = p_value(probe.get("p_max"), probe.get("n_permutations"))
        return [Phrase(f"{subject} could not be decoded", f"{figures}, {chance}")]
    at = "" if probe.get("layer") is None else f" at layer\N{NO-BREAK SPACE}{probe['layer']}"
    head = [Phrase(f"{subject} is decodable{at}", figures)]
    if is_beyond_text(task_result) and stage(task_result) != "not_beyond_text":
        gained = f"gain {gain(task_result['gap']['beyond_text'])}"
        head.append(Phrase("and beyond the text of the prompt", gained))
    second = (task_result.get("second_split") or {}).get("probe")
    if second is not None and second["ci"][0] <= 0.5:
        unseen = ", though not shown for kinds of item that the probe was not trained on"
        head.append(Phrase(unseen, f"AUROC {auroc(second)}"))
    return head


def _tail(task_result: Mapping[str, Any]) -> list[Phrase]:
    where, decodable = stage(task_result), is_decodable(task_result)
    but = ", but" if decodable else ", and"
    if where == "not_beyond_text":
        added = gain((task_result.get("gap") or {}).get("beyond_text"))
        little = "the probe adds too little to the text of the prompt alone"
        return [Phrase(f"{but} {little}", f"gain {added}")]
    if where == "undetermined":
        counts = counted(task_result["n_items"], task_result.get("n_groups"))
        needed = task_result["breakdown"].get("groups_needed")
        enough = f"about {needed} groups would" if needed else ""
        lost = "where on the way to its words it gets lost, if anywhere"
        return [Phrase(f"{but} {counts} cannot decide {lost}", enough)]
    if not decodable:
        return [Phrase(", so the stage named here rests on a probe that chance might give")]
    return _from_layers_to_words(where, task_result)


def _from_layers_to_words(where: str, task_result: Mapping[str, Any]) -> list[Phrase]:
    words = task_result.get("verbal") or {}
    at_slot, said = (
        f"AUROC {auroc(task_result.get(slot_row(task_result)))}",
        f"AUROC {auroc(words)}",
    )
    slot = "the slot where the model answers about itself"
    match where:
        case "not_transported":
            return [Phrase(f", but it does not fully reach {slot}", at_slot)]
        case "not_read_out":
            lost = _lost_in_words(words)
            return [Phrase(f", also at {slot}", at_slot), Phrase(f", but its words {lost}", said)]
        case "unparsed":
            rate = estimate(words.get("parse_rate"), words.get("parse_rate_ci"))
            unread = Phrase(", but too few of its answers can be read", f"share {rate}")
            return [Phrase(", also from the odds of its words", said), unread]
        case "miscalibrated":
            bias = estimate(words.get("criterion"), words.get("criterion_ci"), signed=True)
            leans = Phrase(f", but its answers lean to “{leaning(words)}”", f"criterion {bias}")
            return [Phrase(", also from the odds of its words", said), leans]
    return [Phrase(", and its words carry it as well as its layers do", said)]


def slot_row(task_result: Mapping[str, Any]) -> str:
    """The row of the better probe at the answer slot, as the diagnosis chose it."""
    names = (row["name"] for row in task_result["breakdown"].get("evidence") or [])
    return "transferred_probe" if best_at_slot(names) == "transferred" else "report_probe"


def _lost_in_words(words: Mapping[str, Any]) -> str:
    low = (words.get("ci") or [None])[0]
    if is_inverted(words):
        return "say the opposite"
    return "carry little of it" if low is not None and low > 0.5 else "do not carry it"


def is_inverted(words: Mapping[str, Any]) -> bool:
    """Whether the words are significantly worse than chance: they say the opposite."""
    high = (words.get("ci") or [None, None])[1]
    return high is not None and high < 0.5


def leaning(words: Mapping[str, Any]) -> str:
    """The answer that the words give too often: a positive criterion is a reluctance to say yes."""
    return "no" if (words.get("criterion") or 0) > 0 else "yes"
