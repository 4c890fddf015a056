"""Proves, by forward passes on random tokens, in which layouts a prompt gets the states it gets alone.

- Padded on the left or on the right: a model of which this is not true is refused, for nothing
  that is captured or generated in batches would be its own.
- In one row with a prompt that begins alike: where this is not true, prefixes are not shared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from hooks.agreement import differences, largest_allowed
from hooks.architecture import Architecture, first_tensor, text_config
from hooks.batching import SHARED_ROW_TOKENS, Batch, padded_batch, shared_batch
from hooks.prompts import Rendered

_N_TOKENS = 8
_N_SHARED = 5
_N_ATTEMPTS = 3


def random_tokens(module: Any, n: int, seed: int = 0) -> list[int]:
    """Draw tokens out of a model's vocabulary."""
    vocab = module.get_input_embeddings().weight.shape[0]
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab, (n,), generator=generator).tolist()


def prove_layouts(module: Any, found: Architecture) -> Architecture:
    """Prove that padding changes nothing, and whether prompts may share prefixes.

    Raises:
        ValueError: a prompt's states depend on the padding beside it, or are not finite.
    """
    sides: tuple[Literal["left", "right"], ...] = ("left", "right")
    for side in sides:
        difference = _padding_difference(module, found, side)
        if not difference <= largest_allowed(module.dtype):
            raise ValueError(
                f"architecture: padding on the {side} changes the states of "
                f"{type(module).__name__} (by {difference:.1g} of their norm); only models that "
                "attend to unmasked earlier tokens alone are supported"
            )
    return replace(found, sharing_problem=_sharing_problem(module, found))


def _prompt(module: Any, n_own: int, seed: int, n_shared: int = _N_SHARED) -> Rendered:
    tokens = (*random_tokens(module, n_shared), *random_tokens(module, n_own, seed))
    return Rendered(str(seed), tokens, {})


def _padding_difference(module: Any, found: Architecture, side: Literal["left", "right"]) -> float:
    """Return by how much padding changes a prompt, at the best of a few attempts.

    In half precision rounding alone sends a token to another expert now and then; what reads its
    padding does so every time.
    """
    attempts = []
    for seed in range(1, 1 + _N_ATTEMPTS):
        long = _prompt(module, _N_TOKENS - _N_SHARED, seed)
        short = _prompt(module, _N_SHARED, seed, n_shared=0)
        alone = _states(module, found, padded_batch([short], short.token_ids[0]))[0]
        if not bool(alone.isfinite().all()):
            dtype = str(module.dtype).removeprefix("torch.")
            raise ValueError(
                f"dtype: {dtype} cannot hold the states of {type(module).__name__}: they are not "
                "finite; choose bfloat16 or float32"
            )
        batch = padded_batch([long, short], short.token_ids[0], side)
        attempts.append(float(differences(_states(module, found, batch)[1], alone).max()))
        if attempts[-1] <= largest_allowed(module.dtype):
            break
    return min(attempts)


def _sharing_problem(module: Any, found: Architecture) -> str:
    if not found.takes_position_ids:
        return "it takes no position ids"
    if "local" in (getattr(text_config(module), "attention_layers", None) or ()):  # GPT-Neo
        return "its windows count slots of a row, not positions"
    n_own = _n_layout_tokens(module, found) - _N_SHARED
    prompts = [_prompt(module, n_own, seed) for seed in (1, 2)]
    pad = prompts[0].token_ids[0]
    try:
        together = _states(module, found, shared_batch([prompts], pad))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return f"it refuses a mask of its own shape: {str(error).partition(chr(10))[0]}"
    alone = [_states(module, found, padded_batch([prompt], pad))[0] for prompt in prompts]
    difference = float(differences(torch.cat(together), torch.cat(alone)).max())
    if not difference <= largest_allowed(module.dtype):
        return f"its states depend on where in a row a token lies (by {difference:.1g})"
    return ""


def _n_layout_tokens(module: Any, found: Architecture) -> int:
    """Return a length at which two prompts' shared row exceeds the window, if any row can.

    Windows might count slots of a row even where a mask says otherwise.
    """
    if found.window is None or found.window >= SHARED_ROW_TOKENS:
        return _N_TOKENS
    limit = getattr(text_config(module), "max_position_embeddings", None) or found.window
    return max(_N_TOKENS, min(found.window, int(limit)))


def _states(module: Any, found: Architecture, batch: Batch) -> list[Tensor]:
    """Return each prompt's final states, float32 `[token, d_model]`."""
    device = module.get_input_embeddings().weight.device
    inputs: dict[str, Any] = {
        "input_ids": batch.token_ids.to(device),
        "attention_mask": batch.attention_mask(module.dtype).to(device),
    }
    if found.takes_position_ids:
        inputs["position_ids"] = batch.position_ids.to(device)
    last = found.final_norm if found.final_norm is not None else found.blocks[-1].module
    seen: list[Tensor] = []

    def see(_: Any, __: Any, output: Any) -> None:
        seen.append(first_tensor(output).float())

    handle = last.register_forward_hook(see)
    try:
        found.backbone(**inputs, use_cache=False)
    finally:
        handle.remove()
    return [seen[-1][row, list(slots)] for row, slots in zip(batch.rows, batch.slots, strict=True)]
