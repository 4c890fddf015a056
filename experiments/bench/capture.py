"""`selfprobe bench capture`: capture against a bare forward pass and against how others read states.

What is compared, all in fp32 on the model's device, every layer, at `prompt_last` and `instruction_last`:

- `bare`: the backbone over selfprobe's own padded batches, nothing read; twice, so that the noise shows.
- `padded`, `shared`: `capture` without and with shared prefixes.
- the rivals of `experiments.bench.rivals`, on the first items of every round, against `capture` of the same items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import torch

from experiments.bench import rivals
from experiments.bench.timing import median_ratio, peak_bytes, seconds_in_turns
from experiments.progress import Advance
from hooks import CapturePlan, CaptureSpec, Model, Prompt, capture, plan_capture
from hooks.backends.torch import model_inputs
from hooks.plan import render_all

ROUNDS = 9
SETS = 4
"""The prompts are dealt into so many sets; a round measures one of them, so that all rounds fit into minutes."""

RIVAL_ITEMS = 24
"""Rivals are slow: in a round they, and `capture` against them, read so many of its prompts."""

SPEC = CaptureSpec(positions=("instruction_last", "prompt_last"))

RIVALS: dict[str, Callable[[Model], rivals.Rival]] = {
    "output_hidden_states": rivals.output_hidden_states,
    "run_with_cache": rivals.run_with_cache,
    "nnsight_trace": rivals.nnsight_trace,
}


@dataclass(frozen=True)
class CaptureBench:
    """Ratios of times, medians over rounds.

    Attributes:
        bare_over_bare: the bare pass over itself: how far ratios can be trusted.
        overhead_over_bare: capture without shared prefixes over the bare pass of the same batches.
        overhead_with_shared_prefix: capture as it is by default over that bare pass.
        speedup_over: by rival, its time over that of capture by default on the same items.
        peak_extra_memory: by how much capture's peak exceeds the bare pass's, over the bytes that it yields.
        n_prompts, n_tokens, n_rounds, threads: what was run.
        seconds: every round's times.
    """

    bare_over_bare: float
    overhead_over_bare: float
    overhead_with_shared_prefix: float
    speedup_over: dict[str, float]
    peak_extra_memory: float
    n_prompts: int
    n_tokens: int
    n_rounds: int
    threads: int
    seconds: list[dict[str, float]]

    def to_dict(self) -> dict[str, object]:
        """Everything, JSON-able."""
        return asdict(self)

    def lines(self) -> list[str]:
        """A table for a person."""
        rows = [
            ("bare forward pass again", self.bare_over_bare),
            ("capture, padded batches", self.overhead_over_bare),
            ("capture, shared prefixes (default)", self.overhead_with_shared_prefix),
        ]
        return [
            f"{self.n_prompts} prompts, {self.n_tokens} tokens, {self.threads} threads, "
            f"medians of {self.n_rounds} paired ratios",
            "",
            "time over a bare forward pass of the same padded batches",
            *(f"  {name:<36}{ratio:6.2f}" for name, ratio in rows),
            "time over that of capture (default) on the same items",
            *(f"  {name:<36}{ratio:6.2f}" for name, ratio in self.speedup_over.items()),
            "peak memory beyond the bare pass, over the bytes yielded",
            f"  {'capture, padded batches':<36}{self.peak_extra_memory:6.2f}",
        ]


def bench_capture(
    model: Model, prompts: Sequence[Prompt], *, rounds: int = ROUNDS, advance: Advance
) -> CaptureBench:
    """Measure; `advance` is told of every round.

    Raises:
        ValueError: fewer prompts than sets.
    """
    if len(prompts) < SETS:
        raise ValueError(f"prompts: {len(prompts)} are too few to measure; give at least {SETS}")
    sets = [prompts[start::SETS] for start in range(SETS)]
    readers = {name: make(model) for name, make in RIVALS.items()}
    seconds: list[dict[str, float]] = []
    for number in range(-1, rounds):
        chosen = sets[number % SETS]
        contestants = _own(model, chosen) | _against_rivals(model, chosen, readers)
        (measured,) = seconds_in_turns([contestants])
        if number >= 0:  # the first one warms up
            seconds.append(measured)
        advance(1)
    rendered = render_all(model, prompts)
    return CaptureBench(
        bare_over_bare=median_ratio(seconds, "bare again", "bare"),
        overhead_over_bare=median_ratio(seconds, "padded", "bare"),
        overhead_with_shared_prefix=median_ratio(seconds, "shared", "bare"),
        speedup_over={name: median_ratio(seconds, name, "capture") for name in RIVALS},
        peak_extra_memory=_peak_extra_memory(model, sets[0]),
        n_prompts=len(prompts),
        n_tokens=sum(map(len, rendered)),
        n_rounds=rounds,
        threads=torch.get_num_threads(),
        seconds=seconds,
    )


def _own(model: Model, prompts: Sequence[Prompt]) -> dict[str, list[Callable[[], object]]]:
    padded = plan_capture(model, prompts, SPEC, share_prefixes=False)
    shared = plan_capture(model, prompts, SPEC)
    n = len(padded.batches)
    return {
        "bare": [partial(_bare, padded, i) for i in range(n)],
        "padded": [partial(_batch, padded, i) for i in range(n)],
        "bare again": [partial(_bare, padded, i) for i in range(n)],
        "shared": [partial(_batch, shared, i) for i in range(len(shared.batches))],
    }


def _against_rivals(
    model: Model, prompts: Sequence[Prompt], readers: dict[str, rivals.Rival]
) -> dict[str, list[Callable[[], object]]]:
    few = prompts[:RIVAL_ITEMS]
    rendered = render_all(model, few)
    ours: dict[str, list[Callable[[], object]]] = {
        "capture": [lambda: list(capture(model, few, SPEC))]
    }
    return ours | {name: [partial(read, rendered)] for name, read in readers.items()}


def _bare(plan: CapturePlan, index: int) -> None:
    batch = plan.lay_out(index)
    with torch.inference_mode():
        plan.model.architecture.backbone(**model_inputs(plan.model, batch))


def _batch(plan: CapturePlan, index: int) -> object:
    others = {id for i, ids in enumerate(plan.batches) if i != index for id in ids}
    return list(plan.run(done=others))


def _peak_extra_memory(model: Model, prompts: Sequence[Prompt]) -> float:
    plan = plan_capture(model, prompts, SPEC, share_prefixes=False)
    last = len(plan.batches) - 1
    ours = peak_bytes(lambda: _batch(plan, last), model.device)
    extra = ours - peak_bytes(lambda: _bare(plan, last), model.device)
    n_states = len(plan.batches[last]) * model.n_layers * len(SPEC.positions)
    return extra / (n_states * model.d_model * 4)
