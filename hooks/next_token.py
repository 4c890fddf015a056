"""The output side: how a model's distribution over the first token of its answer looks."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hooks.activations import CaptureSpec
from hooks.capture import capture
from hooks.model import Model
from hooks.prompts import Prompt
from hooks.readout import check_readout, option_tokens


@dataclass(frozen=True)
class NextToken:
    """The distribution over the first answer token of one prompt, in four numbers.

    Attributes:
        id: of the prompt.
        max_probability: of the most probable token.
        entropy: in nats.
        top2_margin: log-probability of the most probable token minus that of the second.
        opening_log_odds: of the first tokens of the openings asked for, all together, against all other tokens;
            None where none were.
    """

    id: str
    max_probability: float
    entropy: float
    top2_margin: float
    opening_log_odds: float | None


def next_tokens(
    model: Model,
    prompts: Sequence[Prompt],
    openings: Sequence[str] = (),
    *,
    done: Collection[str] = (),
) -> Iterator[list[NextToken]]:
    """Yield the numbers batch by batch, from the model's own final states; batches that are all `done` are left out.

    Args:
        model: from `load_model`.
        prompts: with unique ids.
        openings: words that an answer may begin with; every spelling of each counts by its first token.
        done: ids that need no reading.

    Raises:
        ValueError: as `capture`; the model's final states do not explain its logits; openings without a token.
    """
    check_readout(model)
    tokens = option_tokens(model.tokenizer, {"openings": openings})["openings"] if openings else ()
    readout = model.architecture.readout
    assert readout is not None
    spec = CaptureSpec(sites=("final_norm",), positions=("prompt_last",))
    for batch in capture(model, prompts, spec, done=done):
        states = batch.sites["final_norm"][:, 0, 0]
        with torch.inference_mode():
            logits = readout(states.to(device=model.device, dtype=model.dtype))
        yield _describe(batch.ids, logits.double().cpu(), tokens)


def _describe(
    ids: Sequence[str], logits: Float[Tensor, "item vocabulary"], tokens: Sequence[int]
) -> list[NextToken]:
    logprobs = torch.log_softmax(logits, dim=-1)
    entropy = torch.special.entr(logprobs.exp()).sum(dim=-1)
    top = logprobs.topk(2, dim=-1).values
    odds: list[float | None] = [None] * len(ids)
    if tokens:
        is_opening = torch.zeros(logits.shape[-1], dtype=torch.bool)
        is_opening[list(tokens)] = True
        odds = (
            logprobs[:, is_opening].logsumexp(-1) - logprobs[:, ~is_opening].logsumexp(-1)
        ).tolist()
    return [
        NextToken(id, math.exp(first), float(bits), first - second, log_odds)
        for id, bits, (first, second), log_odds in zip(
            ids, entropy, top.tolist(), odds, strict=True
        )
    ]
