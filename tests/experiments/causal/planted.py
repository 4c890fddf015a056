"""A tiny model whose behavior is read off one direction by construction, and a subject that is made of it.

At the last block only the final norm and the unembedding are left. The unembedding of the task's opening is along a
planted direction, and all others are at right angles to it: the behavior hangs on it, and no report does.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from experiments.asked import asked_of
from experiments.causal.subject import Place, Subject
from experiments.config import make_config
from experiments.tasks import Item
from hooks import CaptureSpec, Model, capture
from hooks.readout import option_tokens
from tests.conftest import make_tiny_model
from tests.experiments.parity import ParityTask

N_GROUPS = 150
"""Pairs of items to choose from."""

AXIS = 5
"""The principal axis that is planted: along the first ones, directions of any labels point."""


class OpeningTask(ParityTask):
    """Outcome 1 begins with "poem"."""

    name: ClassVar[str] = "opening"
    openings: ClassVar[tuple[str, ...]] = ("poem",)
    n_groups = N_GROUPS


def planted_subject(n_items: int = 80) -> tuple[Subject, np.ndarray]:
    """The subject, and the planted direction `[d_model]`: outcome 1 has most of it, outcome 0 least, of all items."""
    original = make_tiny_model("llama")
    module = type(original.module)(original.module.config).eval()
    module.load_state_dict(original.module.state_dict())
    task = OpeningTask()
    config = make_config({"tasks": ["refusal"], "paraphrases": 1})
    every = tuple(task.items())
    features = last_states(original, every)
    planted = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)[2][AXIS]
    _write_unembedding(module, original.tokenizer, torch.tensor(planted, dtype=torch.float32))
    model = Model.from_module(module, original.tokenizer, name="planted")
    order = np.argsort(features @ planted)
    rows = np.sort(np.concatenate([order[: n_items // 2], order[-(n_items // 2) :]]))
    return Subject(
        task=task,
        config=config,
        model=model,
        place=Place("resid_post", 2, "prompt_last", 2),
        alpha=1.0,
        items=tuple(every[row] for row in rows),
        outcome=np.isin(rows, order[-(n_items // 2) :]).astype(np.int64),
        groups=np.array([every[row].id for row in rows]),
        features=features[rows],
        questions=asked_of(task, config),
    ), planted


def last_states(model: Model, items: tuple[Item, ...]) -> np.ndarray:
    """States `[item, d_model]` behind the last block at the answer slot."""
    spec = CaptureSpec(sites=("resid_post",), layers=(2,), positions=("prompt_last",))
    states = {
        id: row[0, 0].double().numpy()
        for batch in capture(model, [item.prompt() for item in items], spec)
        for id, row in zip(batch.ids, batch.sites["resid_post"], strict=True)
    }
    return np.array([states[item.id] for item in items])


def _write_unembedding(module: Any, tokenizer: Any, planted: torch.Tensor) -> None:
    with torch.no_grad():
        module.model.norm.weight.fill_(1.0)
        rows = module.lm_head.weight.detach().clone()
        rows -= (rows @ planted)[:, None] * planted
        rows *= 0.1
        opening = option_tokens(tokenizer, {"opening": OpeningTask.openings})["opening"]
        rows[list(opening)] = 3 * planted
        module.lm_head.weight = torch.nn.Parameter(rows)
