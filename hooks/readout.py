"""What a model is about to say: log-probabilities of named options at the answer slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hooks.model import Model


def spellings(word: str) -> tuple[str, ...]:
    """Return a word with and without a leading space, as it stands and with both first letters.

    >>> spellings("Yes")
    ('Yes', ' Yes', 'yes', ' yes')
    """
    word = word.strip()
    cases = dict.fromkeys((word, word[:1].lower() + word[1:], word[:1].upper() + word[1:]))
    return tuple(f"{space}{case}" for case in cases for space in ("", " "))


def option_tokens(
    tokenizer: Any, options: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, ...]]:
    """Return each option's first tokens over all spellings of its words.

    A spelling whose first token is a lone space says nothing about the option and is left out.

    Raises:
        ValueError: an option without a token, or two options with one first token in common.
    """
    tokens: dict[str, tuple[int, ...]] = {}
    owner: dict[int, str] = {}
    for option, words in options.items():
        if isinstance(words, str) or not all(word.strip() for word in words):
            raise ValueError(f"options: {option!r} needs a sequence of non-empty words")
        first: set[int] = set()
        for word in words:
            for spelling in spellings(word):
                ids = tokenizer(spelling, add_special_tokens=False)["input_ids"]
                if ids and tokenizer.decode(ids[:1]).strip():
                    first.add(int(ids[0]))
        if not first:
            raise ValueError(f"options: {option!r} has no token in this vocabulary")
        for token in sorted(first):
            if token in owner:
                raise ValueError(
                    f"options: {owner[token]!r} and {option!r} begin with the same token "
                    f"{tokenizer.decode([token])!r}; choose other words"
                )
            owner[token] = option
        tokens[option] = tuple(sorted(first))
    return tokens


def sum_logprobs(
    logits: Float[Tensor, "item vocabulary"], tokens: Mapping[str, Sequence[int]]
) -> dict[str, Float[Tensor, "item"]]:
    """Return per option the log of the summed probability of its tokens, float32 where the logits are."""
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    return {
        option: torch.logsumexp(logprobs[:, list(ids)], dim=-1) for option, ids in tokens.items()
    }


def check_readout(model: Model) -> None:
    """Raise ValueError if the model's final states do not explain its logits."""
    problem = model.architecture.readout_problem
    if problem:
        raise ValueError(f"options: this model has no exact readout: {problem}")


def logit_lens(
    model: Model,
    states: Float[Tensor, "*batch d_model"],
    tokens: Sequence[int] | None = None,
) -> Float[Tensor, "*batch token"]:
    """Read residual states as if they were the last block's output.

    The final norm and the unembedding are applied to states of any `resid_*` site; at the last
    layer this gives the model's own logits (nostalgebraist 2020, "interpreting GPT").

    Args:
        model: the model that the states come from.
        states: for example `activations.sites["resid_post"]`.
        tokens: which logits are wanted; None means those of the whole vocabulary.

    Returns:
        float32 logits on the CPU.

    Raises:
        ValueError: the model's final states do not explain its logits.
    """
    check_readout(model)
    norm, readout = model.architecture.final_norm, model.architecture.readout
    assert norm is not None
    assert readout is not None
    if tokens is not None:
        readout = readout.of(tokens)
    with torch.inference_mode():
        logits = readout(norm(states.to(device=model.device, dtype=model.dtype)))
    return logits.cpu().clone()


def lens_log_odds(
    model: Model,
    states: Float[Tensor, "*batch d_model"],
    yes: Sequence[str],
    no: Sequence[str],
) -> Float[Tensor, "*batch"]:
    """Log-odds of one option against another as `logit_lens` reads them: the vocabulary's sum cancels.

    Args:
        model, states: as there.
        yes, no: the words of each option, of which the first tokens of all spellings count.

    Raises:
        ValueError: as `logit_lens` and `option_tokens`.
    """
    tokens = option_tokens(model.tokenizer, {"yes": yes, "no": no})
    logits = logit_lens(model, states, [*tokens["yes"], *tokens["no"]])
    n_yes = len(tokens["yes"])
    first, second = logits[..., :n_yes], logits[..., n_yes:]
    return torch.logsumexp(first, dim=-1) - torch.logsumexp(second, dim=-1)
