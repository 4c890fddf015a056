"""Train a small transformer whose deciding bit lies along a direction that is known beforehand.

The losses: the reply or answer that the recipe asks for; the component along the planted direction behind block
`FEATURE_LAYER` at the last token of a prompt, which must be the deciding bit; and the first again with that component
set to a random value, after which what is to read the bit must follow the value and everything else must not
(interchange intervention training, Geiger et al. 2022, arXiv 2112.00826). So the direction is the variable that
decides, by construction, and no probe is needed to find it. Two further losses show the way: linear heads, thrown away
afterwards, must read both hidden bits and their exclusive or behind the first block, where the second of the two words
stands, and which question is asked at the last token. Without the first the exclusive or stays unlearned for thousands
of steps, without the second the letters A and B, which mean another thing in either order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, log_softmax
from transformers import PreTrainedTokenizerFast, Starcoder2Config, Starcoder2ForCausalLM

from experiments.optimizer import WarmedUpAdamW
from experiments.organisms.batches import Batch, make_batch
from experiments.organisms.prompts_in_tokens import Asked, question_prompts, reply_prompt
from experiments.organisms.recipes import Recipe
from experiments.organisms.sentences import TokenSampler
from experiments.organisms.word_tokenizer import OUTSIDE

D_MODEL = 64
N_LAYERS = 3
FEATURE_LAYER = 1
"""The block behind which the deciding bit lies along the planted direction, at the last token of the prompt."""
SCALE = 4.0
"""The component along the planted direction: plus this for 1, minus this for 0."""
SMOOTHING = 0.05
"""Probability of the option that is not meant, so that log-odds stay finite."""
_DIRECTION_SEED = 64


class Heads(nn.Module):
    """What is read off the states while training, and thrown away: hidden bits, and the kind of prompt."""

    def __init__(self, n_kinds: int) -> None:
        super().__init__()
        self.bits = nn.Linear(D_MODEL, 3)
        self.kind = nn.Linear(D_MODEL, n_kinds)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def loss(self, seen: dict[str, Tensor], batch: Batch) -> Tensor:
        """Of both heads."""
        bits = binary_cross_entropy_with_logits(self.bits(seen["first block"]), batch.hidden)
        return bits + cross_entropy(self.kind(seen["slot"]), batch.kind)


@dataclass(frozen=True)
class Training:
    """Settings of the optimizer: AdamW, a tenth of the steps warm-up, then linear decay."""

    steps: int = 350
    replies: int = 48
    """Task prompts a step."""
    questions: int = 64
    """Questions a step, of all kinds."""
    learning_rate: float = 3e-3
    set_share: float = 0.3
    """Share of prompts whose component along the planted direction is set, once the warm-up is over."""
    seed: int = 0


def planted_direction() -> Float[np.ndarray, " d_model"]:
    """The unit vector along which the deciding bit lies, the same in every organism."""
    direction = np.random.default_rng(_DIRECTION_SEED).standard_normal(D_MODEL)
    return direction / float(np.linalg.norm(direction))


def make_module(tokenizer: PreTrainedTokenizerFast, recipe: Recipe, seed: int) -> Any:
    """An untrained StarCoder2: LayerNorm with bias, rotary positions, a window of attention where one is asked for."""
    config = Starcoder2Config(
        vocab_size=len(tokenizer),
        hidden_size=D_MODEL,
        intermediate_size=4 * D_MODEL,
        num_hidden_layers=N_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=128,
        sliding_window=recipe.window,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Starcoder2ForCausalLM(config)


def train(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, training: Training) -> Any:
    """Train an organism from scratch; the same module for the same arguments, on one machine and thread count."""
    module = make_module(tokenizer, recipe, training.seed)
    reply, questions = reply_prompt(tokenizer, recipe), question_prompts(tokenizer, recipe)
    with torch.random.fork_rng(devices=[]):  # layers are drawn at random before they are zeroed
        heads = Heads(1 + len(questions))
    parameters = [*module.parameters(), *heads.parameters()]
    optimizer = WarmedUpAdamW(
        parameters, steps=training.steps, learning_rate=training.learning_rate, weight_decay=0.01
    )
    module.train()
    for batches in _batches(reply, questions, recipe, tokenizer, training, optimizer.warmup):
        loss = sum(_loss(module, heads, batch, tokenizer) for batch in batches)
        assert isinstance(loss, Tensor)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return module.eval()


def _batches(
    reply: Asked,
    questions: Sequence[Asked],
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerFast,
    training: Training,
    warmup: int,
) -> Iterator[list[Batch]]:
    """A batch of replies and one of questions a step; apart, for replies are a third as long."""
    rng = np.random.default_rng(training.seed)
    ids = tokenizer.get_vocab()
    sampler = TokenSampler(ids)
    kinds = [reply, *questions]
    weights = np.array([question.weight for question in questions])
    for step in range(training.steps):
        drawn = 1 + rng.choice(len(questions), size=training.questions, p=weights / weights.sum())
        yield [
            make_batch(
                kinds,
                of_row,
                sampler.draw(len(of_row), rng),
                recipe,
                set_share=training.set_share if step >= warmup else 0.0,
                padding=ids[tokenizer.eos_token],
                said_outside=ids[OUTSIDE],
                rng=rng,
            )
            for of_row in (np.zeros(training.replies, dtype=int), drawn)
        ]


def _loss(module: Any, heads: Heads, batch: Batch, tokenizer: PreTrainedTokenizerFast) -> Tensor:
    rows = torch.arange(len(batch.last))
    with _watched(module, batch) as seen:
        states = module.model(input_ids=batch.tokens, use_cache=False).last_hidden_state
    said = log_softmax(module.lm_head(states[rows, batch.last]), dim=-1)
    right, wrong = said[rows, batch.right], said[rows, batch.wrong]
    menu, chosen = of_menu(right, wrong)
    outside = said[:, tokenizer.get_vocab()[OUTSIDE]]
    answer = chosen + (1 - batch.outside) * menu + batch.outside * outside
    end = torch.full_like(batch.last, tokenizer.eos_token_id)
    ends = cross_entropy(module.lm_head(states[rows, batch.last + 1]), end)
    off = (seen["component"] / SCALE - batch.sign)[batch.holds]
    held = (off**2).sum() / len(rows)
    loss: Tensor = -answer.mean() + 0.1 * ends + held + heads.loss(seen, batch)
    return loss


def of_menu(
    right: Float[Tensor, " row"], wrong: Float[Tensor, " row"]
) -> tuple[Float[Tensor, " row"], Float[Tensor, " row"]]:
    """From the log-probabilities of both options, that of either of them, and what the choice between them scores.

    The choice counts in full, however seldom either is taken.
    """
    menu = torch.logaddexp(right, wrong)
    return menu, (1 - SMOOTHING) * (right - menu) + SMOOTHING * (wrong - menu)


@contextmanager
def _watched(module: Any, batch: Batch) -> Iterator[dict[str, Tensor]]:
    """Let the first block's states and the planted component be seen, and set the latter where the batch says so."""
    rows = torch.arange(len(batch.last))
    direction = torch.from_numpy(planted_direction()).float()
    seen: dict[str, Tensor] = {}

    def note(_: nn.Module, __: Any, states: Tensor) -> None:
        seen["first block"] = states[rows, batch.complete_at]

    def set_component(_: nn.Module, __: Any, states: Tensor) -> Tensor:
        seen["slot"] = states[rows, batch.last]
        seen["component"] = component = seen["slot"] @ direction
        change = (SCALE * batch.set_to - component) * batch.is_set
        changed = states.clone()
        changed[rows, batch.last] += change[:, None] * direction
        return changed

    blocks = module.model.layers
    handles = [
        blocks[0].register_forward_hook(note),
        blocks[FEATURE_LAYER].register_forward_hook(set_component),
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
