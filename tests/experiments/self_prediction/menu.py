"""A tiny model that can say two words alone, so that everything it may answer can be enumerated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from experiments.self_prediction.labeled import Labeled
from experiments.tasks import Elicitation, Item, Judgment
from hooks import Model
from tests.conftest import make_tiny_model
from tests.experiments.parity import ParityTask, elicitation

QUESTION: Elicitation = elicitation("letters", "ab", "odd A or even B?", "A", "B")
UNSAID = -1e4
"""Logit of all other tokens."""


class SaysA(ParityTask):
    """Will I answer A? An answer that is neither A nor B is unscored."""

    name = "says_a"
    max_new_tokens = 1

    def judge(self, items: Sequence[Item], completions: Sequence[str]) -> list[Judgment]:
        return [Judgment({"A": 1, "B": 0}.get(text), text) for text in completions]


def menu_model(words: tuple[str, ...] = ("A", "B"), seed: int = 0) -> Model:
    """Answers with one of some words of one token each; what it says depends on the prompt."""
    tiny = make_tiny_model("llama", seed)
    module = type(tiny.module)(tiny.module.config)
    module.load_state_dict(tiny.module.state_dict())
    width, size = module.config.hidden_size, module.config.vocab_size
    head = nn.Linear(width, size, bias=True)
    generator = torch.Generator().manual_seed(seed)
    said = [token_of(tiny, word) for word in words]
    with torch.no_grad():
        head.weight.zero_()
        head.weight[said] = 0.3 * torch.randn(len(said), width, generator=generator)
        head.bias.fill_(UNSAID)
        head.bias[said] = 0.0
    module.lm_head = head
    return Model.from_module(module, tiny.tokenizer, name=f"menu-{seed}")


def token_of(model: Model, word: str) -> int:
    ids: list[int] = model.tokenizer(word, add_special_tokens=False)["input_ids"]
    assert len(ids) == 1
    return ids[0]


def labeled(outcomes: list[int], first: int = 0) -> Labeled:
    """Items of the parity task with made-up outcomes."""
    items: list[Item] = ParityTask().items()[first : first + len(outcomes)]
    return Labeled(ParityTask(), tuple(items), np.array(outcomes))


def trainable(model: Model) -> dict[str, nn.Parameter]:
    """Some of its weights, early and late."""
    names = ("lm_head.weight", "model.layers.0.self_attn.q_proj.weight", "model.norm.weight")
    return {name: model.module.get_parameter(name) for name in names}
