"""Prompts and heads for tests: no weight of a head is zero, so that nothing about it is trivial."""

from __future__ import annotations

import torch

from experiments.self_prediction.heads import SelfPredictionHead, Shape, Target
from experiments.self_prediction.place import Place
from hooks import CaptureSpec, Model, Prompt, capture

TARGETS = (Target("refuses"), Target("tokens", "number"), Target("flips"))
WORDS = ("capital", "sea", "poem of the wind", "quote", "capital of France")
PROMPTS = [
    Prompt.chat(
        f"p{i}", f"You read: {word}. Will you decline it? {'Yes or no? ' * (i % 3)}", quote=word
    )
    for i, word in enumerate(WORDS)
]
POSITIONS = ("mean_instruction", "quote_last", "instruction_last", "template_1", "prompt_last")


def drawn_head(model: Model, place: Place, shape: Shape | None = None, seed: int = 0):
    """A head whose weights and units are random."""
    head = SelfPredictionHead.of(model, TARGETS, place, shape)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(0, 0.1, generator=generator)
        head.mean.normal_(generator=generator)
        head.scale.uniform_(0.5, 2, generator=generator)
        head.center[1], head.spread[1] = 40.0, 3.0
    return head


def offline(
    head: SelfPredictionHead, model: Model, prompts: list[Prompt]
) -> dict[str, dict[str, float]]:
    """By prompt and target: a capture, and then a prediction."""
    spec: CaptureSpec = head.place.spec
    found = {}
    for read in capture(model, prompts, spec):
        columns = head.predict(read.sites[head.place.site][:, 0, 0])
        for row, id in enumerate(read.ids):
            found[id] = {target: float(values[row]) for target, values in columns.items()}
    return found


def largest_difference(a: dict[str, dict[str, float]], b: dict[str, dict[str, float]]) -> float:
    """Of two tables of predictions for the same prompts and targets; of numbers relative to their size."""
    assert a.keys() == b.keys()
    assert all(a[id].keys() == b[id].keys() for id in a)
    return max(abs(a[id][t] - b[id][t]) / max(1.0, abs(b[id][t])) for id in a for t in a[id])
