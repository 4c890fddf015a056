"""What a capture will do, fixed before its first forward pass.

The batches are planned from *all* prompts, and every check is made, before anything is run. A capture that was killed
runs the same batches again, with the same members, padding and number of threads: re-batching what is left would
change the last bits.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hooks.activations import Activations, CaptureSpec
from hooks.backends import Backend, get_backend
from hooks.batching import Batch, PlannedBatch, plan_batches
from hooks.fingerprint import capture_fingerprint, interventions_digest
from hooks.kept import Kept, keeping
from hooks.model import Model
from hooks.positions import check_positions
from hooks.prompts import Prompt, Rendered, render, truncated
from hooks.readout import check_readout, option_tokens, sum_logprobs
from hooks.transfer import to_host

# 2,048 tokens keep two cores busy; a GPU wants more at once.
_BATCH_TOKENS, _GPU_BATCH_TOKENS = 2048, 16_384


@dataclass(frozen=True)
class CapturePlan:
    """The batches of a capture, in the order in which they run.

    Attributes:
        spec: the sites, layers and positions, with explicit layers.
        fingerprint: what else must be equal for two captures to give the same bits: prompts, batching, backend,
            device, threads, versions, active interventions; flat and JSON-able.
    """

    model: Model = field(repr=False)
    spec: CaptureSpec
    fingerprint: Mapping[str, Any]
    _batches: tuple[PlannedBatch, ...] = field(repr=False)
    _tokens: Mapping[str, Sequence[int]] | None = field(repr=False)
    _backend: Backend = field(repr=False)

    @property
    def batches(self) -> tuple[tuple[str, ...], ...]:
        """The ids of each batch."""
        return tuple(planned.ids for planned in self._batches)

    def lay_out(self, index: int) -> Batch:
        """Return a batch as the model reads it."""
        return self._batches[index].lay_out(self.model.pad_id)

    def run(
        self, done: Collection[str] = (), on_read: Callable[[Kept], None] | None = None
    ) -> Iterator[Activations]:
        """Yield the states of every batch that has an id outside `done`, whole and in the plan's order.

        On a GPU a batch is copied to the host while the next one is computed already.

        Args:
            done: ids whose states are not wanted.
            on_read: given what the model keeps of a batch, once it is read and before its states are yielded, so that
                `generate(kept=)` need not read it again. Not called for a batch of which nothing can be kept
                (`hooks.kept.keeping`).

        Raises:
            RuntimeError: the device's memory is too small for a batch, or the interventions that are active are not
                those that the plan was made under; names the mend.
        """
        done = frozenset(done)
        ahead = _batches_ahead(self.model.device)
        copies: deque[tuple[tuple[str, ...], Any]] = deque()
        for index, planned in enumerate(self._batches):
            if done.issuperset(planned.ids):
                continue
            copies.append((planned.ids, self._read(self.lay_out(index), on_read)))
            if len(copies) > ahead:
                yield self._finished(*copies.popleft())
        while copies:
            yield self._finished(*copies.popleft())

    def _read(
        self, batch: Batch, on_read: Callable[[Kept], None] | None
    ) -> Callable[[], dict[tuple[str, str], Tensor]]:
        """Run one batch; states under ("site", name), log-probabilities under ("option", name)."""
        if interventions_digest(self.model) != self.fingerprint["interventions"]:
            raise RuntimeError(
                "interventions: others are active than when the capture was planned; iterate over it inside the "
                "`with intervene(...)` block that it was called in"
            )
        try:
            # A caller's autocast would change the numbers, and the fingerprint would not know.
            with ExitStack() as stack:
                stack.enter_context(torch.autocast(self.model.device.type, enabled=False))
                kept = stack.enter_context(keeping(self.model, batch)) if on_read else None
                states = self._backend.read(
                    self.model, batch, self.spec, logits=self._tokens is not None
                )
            found = {("site", site): tensor for site, tensor in states.sites.items()}
            if self._tokens is not None:
                assert states.slot_logits is not None
                logprobs = sum_logprobs(states.slot_logits, self._tokens)
                found |= {("option", name): tensor for name, tensor in logprobs.items()}
            copy = to_host(found)
        except torch.cuda.OutOfMemoryError as error:
            raise RuntimeError(
                f"the device has too little memory for a batch of {batch.token_ids.numel()} tokens; "
                "give a smaller batch_tokens"
            ) from error
        if on_read and kept and (read := kept()):
            on_read(read)
        return copy

    def _finished(self, ids: tuple[str, ...], copy: Any) -> Activations:
        assert not isinstance(self.spec.layers, str)
        tensors: dict[tuple[str, str], Tensor] = copy()
        sites = {name: tensor for (kind, name), tensor in tensors.items() if kind == "site"}
        options = {name: tensor for (kind, name), tensor in tensors.items() if kind == "option"}
        return Activations(ids, sites, self.spec.layers, self.spec.positions, options)


def plan_capture(
    model: Model,
    prompts: Sequence[Prompt],
    spec: CaptureSpec,
    *,
    options: Mapping[str, Sequence[str]] | None = None,
    batch_tokens: int | None = None,
    share_prefixes: bool = True,
    backend: str | Backend = "torch",
    truncate: bool = False,
) -> CapturePlan:
    """Check everything about a capture and plan its batches; nothing is run.

    Args:
        model: from `load_model`.
        prompts: with unique ids.
        spec: what to keep.
        options: named options, each with the words that mean it; their log-probabilities at the answer slot come
            with the states (see `hooks.readout.option_tokens`).
        batch_tokens: most token slots in a batch; a longer prompt makes a batch of its own. By default 2,048 on a
            CPU and 16,384 on a GPU.
        share_prefixes: compute a prefix that prompts share only once, where the model and the backend allow it.
        backend: what runs the model: a name that `get_backend` takes, or a backend of one's own.
        truncate: cut the end of the instruction of a prompt that is longer than the model reads, instead of
            refusing it; the ids are recorded in the fingerprint.

    Raises:
        ValueError: names the field, the value and the mend: no prompts, an id twice, a prompt that is too long or
            lacks a position, a site or layer that the model lacks, an unknown backend, unusable options.
    """
    resolved = spec.resolve(model.n_layers)
    reader = get_backend(backend) if isinstance(backend, str) else backend
    reader.check(model, (*resolved.sites, *(("final_norm",) if options else ())))
    tokens = None
    if options:
        check_readout(model)
        tokens = option_tokens(model.tokenizer, options)
    if batch_tokens is None:
        batch_tokens = _BATCH_TOKENS if model.device.type == "cpu" else _GPU_BATCH_TOKENS
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens: {batch_tokens} is not positive")
    rendered = render_all(model, prompts, truncate=truncate)
    check_positions(rendered, (*resolved.positions, *model.attached_positions))
    share = share_prefixes and reader.takes_shared and may_share(model)
    batches = plan_batches(
        rendered,
        batch_tokens=batch_tokens,
        share=share,
        window=model.architecture.window,
        rope_switch=model.architecture.rope_switch,
    )
    fingerprint = capture_fingerprint(
        model,
        rendered,
        tokens or {},
        f"{batch_tokens} tokens, {'shared prefixes' if share else 'padded'}",
        reader,
    )
    return CapturePlan(model, resolved, fingerprint, tuple(batches), tokens, reader)


def _batches_ahead(device: torch.device) -> int:
    """How many batches are computed before the copy of an earlier one is waited for."""
    return 1 if device.type == "cuda" else 0


def may_share(model: Model) -> bool:
    """Tell whether prompts may share prefixes: proved exact, and no prompt is treated apart."""
    return not model.architecture.sharing_problem and not model.n_apart


def render_all(
    model: Model, prompts: Sequence[Prompt], n_new_tokens: int = 0, *, truncate: bool = False
) -> list[Rendered]:
    """Render prompts; refuse none, repeated ids, and (unless truncated) those longer than the model reads."""
    if not prompts:
        raise ValueError("prompts: empty; give at least one prompt")
    for prompt in prompts:
        if not isinstance(prompt, Prompt):
            raise ValueError(f"prompts: {prompt!r:.60} is no Prompt; make it one")
    for id, count in Counter(prompt.id for prompt in prompts).items():
        if count > 1:
            raise ValueError(f"prompts: id {id!r} occurs {count} times; ids must be unique")
    limit = model.max_length - n_new_tokens
    rendered = [render(model, prompt) for prompt in prompts]
    _check_tokens(model, rendered)
    if truncate:
        return [truncated(one, limit) for one in rendered]
    for one in rendered:
        if len(one) > limit:
            new = f" and {n_new_tokens} new ones" if n_new_tokens else ""
            raise ValueError(
                f"prompts: {one.id!r} has {len(one)} tokens{new}, "
                f"but the model reads at most {model.max_length}; shorten it, or truncate"
            )
    return rendered


def _check_tokens(model: Model, prompts: Sequence[Rendered]) -> None:
    """Refuse tokens that the model has no embedding for: its tokenizer is another model's, or grew."""
    n_embeddings = model.module.get_input_embeddings().weight.shape[0]
    for prompt in prompts:
        largest = max(prompt.token_ids)
        if largest >= n_embeddings:
            token = model.tokenizer.decode([largest])
            raise ValueError(
                f"prompts: {prompt.id!r} holds token {largest} ({token!r}), but the model has {n_embeddings} "
                "embeddings; load the tokenizer that belongs to it"
            )
