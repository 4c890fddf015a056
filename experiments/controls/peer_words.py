"""The peer's words: the same questions, which it answers about itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.asked import asked_of, asked_prompts
from experiments.config import RunConfig
from experiments.elicitation import Options, SelfPrediction, option_spellings, read_options
from experiments.progress import Reporter
from experiments.records import append_rows, read_rows, read_whole_rows, write_rows
from experiments.run_folder import RunFolder
from experiments.tasks import Elicitation, Item, Task
from hooks import CaptureSpec, Model, check_lengths, option_logprobs, plan_capture

LogOdds = Mapping[tuple[str, str], float]
"""By item and elicitation: of the option that predicts outcome 1."""


def check_questions(model: Model, config: RunConfig, items: Mapping[Task, Sequence[Item]]) -> None:
    """Raise ValueError where the peer cannot read a question, or cannot tell its options apart.

    Of tasks that make their items with the model, the questions are not known beforehand.
    """
    spec = CaptureSpec(sites=("final_norm",), positions=("prompt_last",))
    for task, own in items.items():
        if task.makes_items:
            continue
        questions = asked_of(task, config).options
        prompts = [prompt for one in questions for prompt in asked_prompts(one, own, config)]
        check_lengths(model, prompts, 1)
        plan_capture(model, prompts, spec, options=option_spellings(questions))


def ask_peer(
    folder: RunFolder,
    config: RunConfig,
    model: Model,
    items: Mapping[Task, Sequence[Item]],
    reporter: Reporter,
) -> None:
    """Read the peer's log-odds of every question about itself; tasks that are there with every answer are picked up."""
    store = folder.peer_words.with_suffix(".partial.jsonl")
    held = {_key(row): row for row in read_whole_rows(store)}
    rows = []
    for task, own in items.items():
        questions = asked_of(task, config).options
        wanted = [(task.name, item.id, question.name) for question in questions for item in own]
        with reporter.stage(f"{task.name}: peer's words", len(own)) as advance:
            if not held.keys() >= set(wanted):
                fresh = [row.to_json() for row in _asked(model, config, own, questions)]
                append_rows(store, fresh)
                held |= {_key(row): row for row in fresh}
            advance(len(own))
        rows += [held[key] for key in wanted]
    write_rows(folder.peer_words, rows)
    store.unlink(missing_ok=True)


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["task"], row["item"], row["elicitation"]


def _asked(
    model: Model, config: RunConfig, items: Sequence[Item], questions: Sequence[Elicitation]
) -> list[SelfPrediction]:
    """Every question put to every item, together: the questions about an item share what they quote."""
    asked = {question: asked_prompts(question, items, config) for question in questions}
    prompts = [prompt for own in asked.values() for prompt in own]
    logprobs = option_logprobs(model, prompts, option_spellings(questions))
    place = {prompt.id: index for index, prompt in enumerate(prompts)}

    def read(question: Elicitation) -> Options:
        at = [place[prompt.id] for prompt in asked[question]]
        yes, no = (logprobs[word][at].double().numpy() for word in (question.yes, question.no))
        return yes, no

    return read_options(items, questions, read)


def read_peer_words(folder: RunFolder) -> LogOdds:
    """What `ask_peer` wrote."""
    return {
        (row["item"], row["elicitation"]): row["log_odds"] for row in read_rows(folder.peer_words)
    }


def peer_log_odds(
    words: LogOdds, ids: Sequence[str], questions: Sequence[Elicitation]
) -> Float[np.ndarray, "elicitation item"]:
    """Side by side, as the model's own in `WordData`."""
    return np.array([[words[item, one.name] for item in ids] for one in questions])
