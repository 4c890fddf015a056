"""A bank of drafts for the parity task, which a tiny random model has both outcomes of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.self_prediction.synthetic import Draft, Request
from experiments.self_prediction.synthetic.draft import conversation
from experiments.tasks import Item
from experiments.tasks.item import user
from tests.experiments.parity import WORDS, ParityTask

TEMPLATES = ("What is the {}?", "Write a {} please.", "Do not answer the {}!")


class SmallBank:
    """Two words of ten in one of three templates; what the model writes is taken if it has letters."""

    fingerprint = "small bank"
    limits: Sequence[str] = ("Senseless.",)

    def draw(self, number: int, rng: np.random.Generator) -> Draft:
        template = number % len(TEMPLATES)
        text = TEMPLATES[template].format(" ".join(rng.choice(np.array(WORDS), 3)))
        return draft(text, f"template {template}", ("low", "high")[template % 2])

    def request(self, number: int, rng: np.random.Generator) -> Request:
        word = str(rng.choice(np.array(WORDS)))
        return Request(word, "low", conversation([("Write.", word)], f"Write {number}."))

    def read(self, request: Request, text: str) -> tuple[Draft | None, str]:
        line = "".join(char for char in text if char.isalpha() or char == " ").strip()
        if len(line) < 3:
            return None, "no letters"
        return draft(line, f"model: {request.about}", request.stratum, "model"), ""


def draft(text: str, group: str, stratum: str, source: str = "template") -> Draft:
    item = Item(
        id="", task=ParityTask.name, group=group, stratum=stratum, messages=user(text),
        meta={"source": source, "entity": group, "type": stratum},
    )  # fmt: skip
    return Draft(item, source, ())  # type: ignore[arg-type]
