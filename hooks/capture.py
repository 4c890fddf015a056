"""Run a model over prompts and yield its states at prediction time, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hooks.activations import Activations, CaptureSpec
from hooks.backends import Backend, get_backend
from hooks.batching import PlannedBatch, plan_batches
from hooks.model import Model
from hooks.positions import check_positions
from hooks.prompts import Prompt, Rendered, render
from hooks.readout import check_readout, option_tokens, sum_logprobs


def capture(
    model: Model,
    prompts: Sequence[Prompt],
    spec: CaptureSpec,
    *,
    options: Mapping[str, Sequence[str]] | None = None,
    done: Collection[str] = (),
    batch_tokens: int = 2048,
    share_prefixes: bool = True,
    backend: str = "torch",
) -> Iterator[Activations]:
    """Yield the states of all prompts at the sites, layers and positions of a spec.

    States come from the forward pass over the prompt alone. Batches are planned from *all* prompts
    before the first pass, so that a run that was killed resumes with the same batches: those whose
    ids are all in `done` are skipped, any other is run whole. Batches come in the plan's order, not
    in that of the prompts.

    Args:
        model: from `load_model`.
        prompts: with unique ids.
        spec: what to keep.
        options: named options, each with the words that mean it; their log-probabilities at the
            answer slot come with the states (see `hooks.readout.option_tokens`).
        done: ids that need not be captured again.
        batch_tokens: most token slots in a batch; a longer prompt makes a batch of its own.
        share_prefixes: compute a prefix that prompts share only once, where the model allows it.
        backend: what runs the model.

    Raises:
        ValueError: before any work starts, and names the field, the value and the mend: no prompts,
            an id twice, a prompt that is too long or lacks a position, a site or layer that the
            model lacks, an unknown backend, unusable options.
    """
    resolved = spec.resolve(model.n_layers)
    model.architecture.require(resolved.sites)
    reader = get_backend(backend)
    tokens = None
    if options:
        check_readout(model)
        tokens = option_tokens(model.tokenizer, options)
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens: {batch_tokens} is not positive")
    rendered = render_all(model, prompts)
    check_positions(rendered, resolved.positions)
    plan = plan_batches(
        rendered,
        batch_tokens=batch_tokens,
        share=share_prefixes and may_share(model),
        window=model.architecture.window,
    )
    done = frozenset(done)
    todo = [planned for planned in plan if not done.issuperset(planned.ids)]
    return _run(model, todo, resolved, tokens, reader)


def option_logprobs(
    model: Model,
    prompts: Sequence[Prompt],
    options: Mapping[str, Sequence[str]],
    *,
    batch_tokens: int = 2048,
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


def render_all(model: Model, prompts: Sequence[Prompt], n_new_tokens: int = 0) -> list[Rendered]:
    """Render prompts, and refuse none, repeated ids, and those longer than the model reads."""
    if not prompts:
        raise ValueError("prompts: empty; give at least one prompt")
    for id, count in Counter(prompt.id for prompt in prompts).items():
        if count > 1:
            raise ValueError(f"prompts: id {id!r} occurs {count} times; ids must be unique")
    rendered = [render(model, prompt) for prompt in prompts]
    for prompt in rendered:
        if len(prompt) + n_new_tokens > model.max_length:
            new = f" and {n_new_tokens} new ones" if n_new_tokens else ""
            raise ValueError(
                f"prompts: {prompt.id!r} has {len(prompt)} tokens{new}, "
                f"but the model reads at most {model.max_length}; shorten it"
            )
    return rendered


def check_lengths(model: Model, prompts: Sequence[Prompt], n_new_tokens: int) -> None:
    """Raise ValueError if a prompt and its answer together are longer than the model reads."""
    render_all(model, prompts, n_new_tokens)


def may_share(model: Model) -> bool:
    """Tell whether prompts may share prefixes: proved exact, and no prompt is treated apart."""
    return not model.architecture.sharing_problem and not model.n_apart


def _run(
    model: Model,
    batches: Sequence[PlannedBatch],
    spec: CaptureSpec,
    tokens: Mapping[str, Sequence[int]] | None,
    backend: Backend,
) -> Iterator[Activations]:
    assert not isinstance(spec.layers, str)
    for planned in batches:
        batch = planned.lay_out(model.pad_id)
        states = backend.read(model, batch, spec, logits=tokens is not None)
        logprobs: Mapping[str, Tensor] = {}
        if tokens is not None:
            assert states.slot_logits is not None
            logprobs = sum_logprobs(states.slot_logits, tokens)
        yield Activations(batch.ids, states.sites, spec.layers, spec.positions, logprobs)
