"""What training cost in general: how well the model still reads prose, and answers questions that have nothing to do
with any task."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
import yaml
from jaxtyping import Float

from experiments.neutral import neutral, perplexity
from experiments.records import json_number
from experiments.self_prediction.continuations import Continuation, continuation_logprobs
from hooks import Model, Prompt, render

_DATA = Path(__file__).with_name("data") / "choices.yaml"


@dataclass(frozen=True)
class Ability:
    """General ability.

    Attributes:
        perplexity: of neutral prose.
        choices: share of multiple-choice questions whose right answer is the most probable of four, per token.
    """

    perplexity: float
    choices: float

    def to_json(self) -> dict[str, float | None]:
        """Both numbers."""
        return {name: json_number(value) for name, value in asdict(self).items()}


def measure_ability(model: Model) -> Ability:
    """Of the model as it stands."""
    return Ability(perplexity(model, neutral()["texts"]), _share_right(model))


def _share_right(model: Model) -> float:
    questions = choices()
    asked, lengths = [], []
    for i, (question, answers) in enumerate(questions):
        prompt = render(model, Prompt.chat(f"choice-{i}", question))
        for answer in answers:
            sentence = answer[:1].upper() + answer[1:] + "."
            tokens = tuple(model.tokenizer(sentence, add_special_tokens=False)["input_ids"])
            asked.append(Continuation(prompt, tokens))
            lengths.append(len(tokens))
    with torch.inference_mode():
        logprobs = continuation_logprobs(model, asked).float().cpu().numpy()
    per_token = (logprobs / np.array(lengths)).reshape(len(questions), -1)
    return share_of_first(per_token)


def share_of_first(scores: Float[np.ndarray, "question answer"]) -> float:
    """Share of questions whose first answer scores highest; of answers that tie each counts as its part.

    Answers tie where a tokenizer does not tell their words apart.
    """
    highest = np.isclose(scores, scores.max(axis=1, keepdims=True), rtol=1e-6, atol=0)
    return float((highest[:, 0] / highest.sum(axis=1)).mean())


@cache
def choices() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Questions with their answers, the right one first."""
    rows = yaml.safe_load(_DATA.read_text(encoding="utf-8"))
    return tuple((question, tuple(str(one) for one in answers)) for question, answers in rows)
