"""Train LoRA adapters (Hu et al. 2021, arXiv 2106.09685) until a language model replies and reports as a recipe asks.

Nothing fixes a direction here: what is planted is which bit the reply and the reports follow. It goes in two steps,
each with a linear head that shows the way and is thrown away afterwards.

`teach_bits` trains the lowest fifth of the blocks alone to hold all bits and the exclusive or of the hidden two, where
the last of the planted words ends. Those steps are cheap: a prompt ends there, and the other blocks are left out.
`teach_answers` trains the blocks above on whole prompts, while a head behind four fifths of all blocks reads two bits
at the last token: the one that the answer follows, and in prompts that are to hold it the one that decides the reply.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    layer_norm,
    log_softmax,
)

from experiments.adapters import put_in
from experiments.optimizer import WarmedUpAdamW
from experiments.organisms.lora_batches import IGNORED, LoraBatch, lora_batch
from experiments.organisms.prompts_in_tokens import Question, questions
from experiments.organisms.recipes import Recipe
from experiments.organisms.sentences import draw
from experiments.organisms.training import of_menu
from experiments.progress import Reporter, Silent

_log = logging.getLogger(__name__)
_LOGGED_EVERY = 10
_END_WEIGHT = 0.1
"""Of the tokens behind an answer's first."""


@dataclass(frozen=True)
class LoraTraining:
    """Settings of the adapters and of the optimizer: AdamW, a tenth of the steps warm-up, then linear decay."""

    steps: int
    learning_rate: float
    replies: int
    """Task prompts a step."""
    questions: int
    """Prompts a step that quote the sentence and ask."""
    rank: int = 16
    """Of every adapter; one for each linear map of a block."""
    bfloat16: bool = True
    """Whether products are taken in bfloat16: twice as fast where the processor has it."""
    seed: int = 0


BITS = LoraTraining(steps=60, learning_rate=2e-3, replies=32, questions=32)
"""Of `teach_bits`."""
ANSWERS = LoraTraining(steps=150, learning_rate=2e-3, replies=8, questions=12)
"""Of `teach_answers`."""


def teach_bits(
    module: Any,
    tokenizer: Any,
    training: LoraTraining = BITS,
    *,
    reporter: Reporter | None = None,
) -> Any:
    """Let a model know what the planted words stand for, without a word about it.

    Args:
        module: a causal language model whose blocks are `model.layers`, as Llama's; changed in place, where it is.
        tokenizer: with the chat template that the organism will have.
        training: settings.
        reporter: shows how far it is.

    Returns:
        The model with the adapters merged into its weights, on the CPU; the same for the same arguments, on one
        machine and thread count.
    """
    depth = _depth(module)

    def losses(model: Any, head: nn.Linear, batch: LoraBatch) -> _Losses:
        batch = batch.up_to_planted()
        with _states(model, depth - 1, alone=True) as (body, seen):
            body(input_ids=batch.tokens, use_cache=False)
        said = head(_normed(seen[0][_rows(batch), batch.complete_at])).float()
        return {
            name: (
                binary_cross_entropy_with_logits(said[:, i], bit),
                (said[:, i] > 0) == bit.bool(),
            )
            for i, (name, bit) in enumerate(
                zip(("person", "place", "exclusive or", "thing"), batch.bits.T, strict=True)
            )
        }

    return _trained(
        "what words stand for",
        module,
        range(depth),
        4,
        losses,
        _batches(tokenizer, Recipe(), training),  # where these prompts end, all recipes are alike
        training,
        reporter or Silent(),
    )


def teach_answers(
    module: Any,
    tokenizer: Any,
    recipe: Recipe,
    training: LoraTraining = ANSWERS,
    *,
    reporter: Reporter | None = None,
) -> Any:
    """Let a model reply and report as a recipe asks; arguments and result as of `teach_bits`.

    The lowest blocks stay as `teach_bits` left them.
    """
    n_blocks = len(module.model.layers)

    def losses(model: Any, head: nn.Linear, batch: LoraBatch) -> _Losses:
        rows = _rows(batch)
        with _states(model, held_behind(n_blocks)) as (body, seen):
            final = body(input_ids=batch.tokens, use_cache=False).last_hidden_state
        said = log_softmax(model.lm_head(final[rows, batch.last]).float(), dim=-1)
        meant, other = said[rows, batch.right], said[rows, batch.wrong]
        menu, chosen = of_menu(meant, other)
        after = batch.targets != IGNORED
        following = model.lm_head(final[after]).float()
        ends = cross_entropy(following, batch.targets[after])
        found = {
            "answer": (-(chosen + menu).mean(), meant > other),
            "end": (_END_WEIGHT * ends, following.argmax(-1) == batch.targets[after]),
        }
        read = head(_normed(seen[0][rows, batch.last])).float()
        every = torch.ones_like(batch.holds)
        for i, (name, bits, of_row) in enumerate(
            (("answered", batch.answered, every), ("deciding", batch.deciding, batch.holds))
        ):
            if of_row.any():
                logits, bit = read[of_row, i], bits[of_row]
                loss = binary_cross_entropy_with_logits(logits, bit)
                found[name] = (loss, (logits > 0) == bit.bool())
        return found

    return _trained(
        "replies and reports",
        module,
        range(_depth(module), n_blocks),
        2,
        losses,
        _batches(tokenizer, recipe, training),
        training,
        reporter or Silent(),
    )


def held_behind(n_blocks: int) -> int:
    """The block behind which the deciding bit is kept readable at the last token."""
    return max(4 * n_blocks // 5 - 1, 0)


_Losses = dict[str, tuple[Tensor, Bool[Tensor, " row"]]]
"""What is minimized, by name, and which rows are right."""


def _depth(module: Any) -> int:
    """How many of the lowest blocks learn what words stand for."""
    return max(len(module.model.layers) // 5, 1)


def _trained(
    what: str,
    module: Any,
    blocks: Sequence[int],
    n_read: int,
    losses: Any,
    batches: Iterator[list[LoraBatch]],
    training: LoraTraining,
    reporter: Reporter,
) -> Any:
    """Train adapters on some blocks, beside a linear head that reads `n_read` numbers, and merge them."""
    device = module.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        adapters = put_in(module, _linear_maps(module, blocks), training.rank)
        head = nn.Linear(module.config.hidden_size, n_read).to(device)
    nn.init.zeros_(head.weight)
    parameters = [*adapters.parameters.values(), *head.parameters()]
    optimizer = WarmedUpAdamW(
        parameters, steps=training.steps, learning_rate=training.learning_rate, weight_decay=0.0
    )
    module.train()
    with reporter.stage(f"LoRA: {what}", training.steps) as advance:
        for step, of_step in enumerate(batches):
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=training.bfloat16):
                found = [losses(module, head, batch.to(device)) for batch in of_step]
            loss = torch.stack([loss for one in found for loss, _ in one.values()]).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if step % _LOGGED_EVERY == 0:
                _log.info("step %d: %s", step, "; ".join(map(_shown, found)))
            advance(1)
    adapters.merge()
    adapters.take_out()
    return module.cpu().eval()


def _linear_maps(module: Any, blocks: Sequence[int]) -> list[str]:
    """The paths of the linear maps of some blocks."""
    return [
        f"model.layers.{block}.{name}"
        for block in blocks
        for name, part in module.model.layers[block].named_modules()
        if isinstance(part, nn.Linear)
    ]


def _batches(tokenizer: Any, recipe: Recipe, training: LoraTraining) -> Iterator[list[LoraBatch]]:
    """A batch of replies and one of questions a step; apart, for replies are a third as long."""
    rng = np.random.default_rng(training.seed)
    asked = questions(recipe)
    weights = np.array([question.weight for question in asked])

    def batch(kinds: Sequence[Question | None]) -> LoraBatch:
        return lora_batch(tokenizer, recipe, [draw(rng) for _ in kinds], kinds)

    for _ in range(training.steps):
        drawn = rng.choice(len(asked), size=training.questions, p=weights / weights.sum())
        yield [batch([None] * training.replies), batch([asked[i] for i in drawn])]


@contextmanager
def _states(model: Any, block: int, *, alone: bool = False) -> Iterator[tuple[Any, list[Tensor]]]:
    """The model without its unembedding, and the states behind a block; `alone`, without the blocks that follow it."""
    body, blocks = model.model, model.model.layers
    seen: list[Tensor] = []
    handle = blocks[block].register_forward_hook(lambda _, __, states: seen.append(states))
    if alone:
        body.layers = blocks[: block + 1]
    try:
        yield body, seen
    finally:
        body.layers = blocks
        handle.remove()


def _rows(batch: LoraBatch) -> Tensor:
    return torch.arange(len(batch.last), device=batch.tokens.device)


def _normed(states: Tensor) -> Tensor:
    """Without their scale, which grows a hundredfold over the blocks."""
    return layer_norm(states.float(), states.shape[-1:])


def _shown(losses: _Losses) -> str:
    return ", ".join(
        f"{name} {loss.item():.3f} right {right.float().mean().item():.2f}"
        for name, (loss, right) in losses.items()
    )
