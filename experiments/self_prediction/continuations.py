"""How probable a model makes given continuations of prompts, as a number that gradients flow through.

Continuations of one prompt share its reading (`hooks.batching`), and the unembedding is applied to no other tokens than
those that foretell one of a continuation: that is what makes training on short answers cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hooks import Model, Rendered
from hooks.architecture import first_tensor
from hooks.backends.torch import model_inputs
from hooks.batching import Batch, plan_batches
from hooks.plan import may_share
from hooks.readout import check_readout

BATCH_TOKENS = 4096
"""Token slots that go through the model side by side; batches of one call are added up, so none saves memory."""


@dataclass(frozen=True)
class Continuation:
    """What may be written behind a prompt: at least one token, with the stop token where the answer ends."""

    prompt: Rendered
    tokens: tuple[int, ...]


def continuation_logprobs(
    model: Model, continuations: Sequence[Continuation], *, temperature: float = 1.0
) -> Float[Tensor, " continuation"]:
    """Log-probability of each continuation, summed over its tokens, under softmax(logits / temperature).

    The caller's autocast and gradient mode hold; whatever of the model is trainable gets its gradient.

    Args:
        model: its module may carry adapters.
        continuations: of any prompts, in any order; those of one prompt need not be together.
        temperature: of the distribution over tokens.

    Raises:
        ValueError: the model's final states do not explain its logits.
    """
    check_readout(model)
    read = [
        Rendered(str(i), (*one.prompt.token_ids, *one.tokens[:-1]), one.prompt.spans)
        for i, one in enumerate(continuations)
    ]
    batches = plan_batches(
        read,
        batch_tokens=BATCH_TOKENS,
        share=may_share(model),
        window=model.architecture.window,
        rope_switch=model.architecture.rope_switch,
    )
    found: list[Tensor] = [torch.empty(0)] * len(continuations)
    for planned in batches:
        batch = planned.lay_out(model.pad_id)
        own = [int(id) for id in batch.ids]
        logprobs = _logprobs(model, batch, [continuations[i] for i in own], temperature)
        for i, logprob in zip(own, logprobs, strict=True):
            found[i] = logprob
    return torch.stack(found)


def _logprobs(
    model: Model, batch: Batch, continuations: Sequence[Continuation], temperature: float
) -> list[Tensor]:
    """One number a continuation; row i of the batch's prompts reads continuation i, but for its last token."""
    readout = model.architecture.readout
    assert readout is not None
    lengths = [len(one.tokens) for one in continuations]
    slots = [
        slot for i, length in enumerate(lengths) for slot in batch.flat_slots(i, None)[-length:]
    ]
    states = _final_states(model, batch).flatten(0, 1)
    at = states[torch.tensor(slots, device=states.device)]
    logprobs = torch.log_softmax(readout(at) / temperature, dim=-1)
    tokens = torch.tensor([token for one in continuations for token in one.tokens])
    chosen = logprobs.gather(1, tokens.to(logprobs.device)[:, None])[:, 0]
    return [part.sum() for part in torch.split(chosen, lengths)]


def _final_states(model: Model, batch: Batch) -> Float[Tensor, "row slot d_model"]:
    """What the unembedding reads, with its gradient."""
    norm = model.architecture.final_norm
    assert norm is not None
    seen: list[Tensor] = []
    handle = norm.register_forward_hook(lambda _, __, states: seen.append(first_tensor(states)))
    try:
        model.architecture.backbone(**model_inputs(model, batch))
    finally:
        handle.remove()
    return seen[0]
