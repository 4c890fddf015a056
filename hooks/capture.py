"""Run a model over prompts and yield its states at prediction time, batch by batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hooks.activations import Activations, CaptureSpec
from hooks.backends import Backend
from hooks.model import Model
from hooks.plan import plan_capture, render_all
from hooks.prompts import Prompt


def capture(
    model: Model,
    prompts: Sequence[Prompt],
    spec: CaptureSpec,
    *,
    options: Mapping[str, Sequence[str]] | None = None,
    done: Collection[str] = (),
    batch_tokens: int | None = None,
    share_prefixes: bool = True,
    backend: str | Backend = "torch",
    truncate: bool = False,
) -> Iterator[Activations]:
    """Yield the states of all prompts at the sites, layers and positions of a spec.

    States come from the forward pass over the prompt alone. Batches come in the plan's order, not in that of the
    prompts; those whose ids are all in `done` are skipped, any other is run whole. It is
    `plan_capture(...).run(done)`, whose arguments these are.

    Raises:
        ValueError: before any work starts; names the field, the value and the mend.
        RuntimeError: a batch does not fit the device's memory.
    """
    plan = plan_capture(
        model,
        prompts,
        spec,
        options=options,
        batch_tokens=batch_tokens,
        share_prefixes=share_prefixes,
        backend=backend,
        truncate=truncate,
    )
    return plan.run(done)


def option_logprobs(
    model: Model,
    prompts: Sequence[Prompt],
    options: Mapping[str, Sequence[str]],
    *,
    batch_tokens: int | None = None,
) -> dict[str, Float[Tensor, "prompt"]]:
    """Return per option the log-probability that each prompt's answer begins with it.

    It is the log of the summed probability of the option's first tokens over the spellings of its
    words (see `spellings`), in the order of the prompts.

    Raises:
        ValueError: as `capture`, and without any option.
    """
    if not options:
        raise ValueError("options: empty; name at least one option")
    spec = CaptureSpec(sites=("final_norm",), positions=("prompt_last",))
    found: dict[str, dict[str, Tensor]] = {option: {} for option in options}
    for acts in capture(model, prompts, spec, options=options, batch_tokens=batch_tokens):
        for option, logprobs in acts.option_logprobs.items():
            found[option].update(zip(acts.ids, logprobs, strict=True))
    return {
        option: torch.stack([by_id[prompt.id] for prompt in prompts])
        for option, by_id in found.items()
    }


def check_lengths(model: Model, prompts: Sequence[Prompt], n_new_tokens: int) -> None:
    """Raise ValueError if a prompt and its answer together are longer than the model reads."""
    render_all(model, prompts, n_new_tokens)
