"""Batched generation, greedy or sampled, that does not depend on the size of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from hooks.activations import Activations, CaptureSpec
from hooks.backends.torch import Recorder, serving
from hooks.batching import Batch, padded_batch
from hooks.completions import Completion, Ending, stop_tokens
from hooks.decoding import Decoding
from hooks.kept import Kept
from hooks.model import Model
from hooks.plan import render_all
from hooks.positions import check_positions
from hooks.prefixes import in_reading_order, prefix_cache, shared_lengths
from hooks.prompts import Prompt, Rendered
from hooks.sampling import Sampling, row_seed
from hooks.weights import quiet_transformers


def generate(
    model: Model,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    n_samples: int = 1,
    temperature: float | None = None,
    seed: int = 0,
    batch_size: int = 32,
    on_batch: Callable[[list[Completion]], None] | None = None,
    spec: CaptureSpec | None = None,
    on_states: Callable[[Activations], None] | None = None,
    decided: Callable[[str], bool] | Sequence[Callable[[str], bool]] | None = None,
    kept: Kept | None = None,
    on_tokens: Callable[[str, int, Sequence[int]], None] | None = None,
) -> list[Completion]:
    """Let the model answer every prompt.

    A batch reads each of its prompts once, whatever the number of samples, and completions that are over leave it.
    Sampling draws from the softmax at a temperature, with numbers seeded by (seed, prompt id, sample): a completion
    does not depend on what else is in its batch.

    Args:
        model: from `load_model`.
        prompts: with unique ids.
        max_new_tokens: most tokens a completion may have.
        n_samples: completions a prompt; more than one needs a temperature.
        temperature: of sampling; None is greedy.
        seed: of sampling.
        batch_size: completions a batch.
        on_batch: called with each batch's completions as soon as they exist.
        spec: what to capture while the prompts are read, so that none is read twice.
        on_states: called with the states of each batch's prompts, once a prompt; needed where there
            is a spec.
        decided: told of the text so far every few tokens; once it says True, a completion is let go. It must not
            take that back when the text goes on. One for all prompts, or one a prompt.
        kept: what a capture has read of these prompts (`CapturePlan.run(on_read=)`), so that none is read twice.
        on_tokens: called with prompt id, sample and all tokens of each completion, the one that it stopped at included.

    Returns:
        All samples of the first prompt, then of the second, and so on.

    Raises:
        ValueError: names the field, the value and the mend, before any work starts.
    """
    _check_counts(max_new_tokens, n_samples, batch_size, temperature)
    if (spec is None) != (on_states is None):
        raise ValueError("on_states: give spec and on_states together, or neither")
    if spec is not None and kept is not None:
        raise ValueError("kept: its prompts are not read again; capture their states with it")
    rendered = render_all(model, prompts, max_new_tokens)
    if spec is not None:
        spec = spec.resolve(model.n_layers)
        model.architecture.require(spec.sites)
        check_positions(rendered, spec.positions)
    check_positions(rendered, model.attached_positions)
    ordered = in_reading_order(model, rendered)
    if model.architecture.rope_switch is not None:
        ordered.sort(key=len)
    stops = stop_tokens(model)
    endings = {
        prompt.id: Ending(model.tokenizer, stops, prompt.transcript, own_decided)
        for prompt, own_decided in zip(rendered, _one_a_prompt(decided, len(prompts)), strict=True)
    }
    found: dict[tuple[str, int], Completion] = {}
    for batch in _batches(ordered, n_samples, batch_size, model, max_new_tokens):
        written, states = _generate_batch(
            model, batch, max_new_tokens, endings, temperature, seed, spec, kept
        )
        completions = [
            endings[prompt.id].completion(prompt.id, sample, tokens)
            for (prompt, sample), tokens in zip(batch.completions, written, strict=True)
        ]
        if on_tokens is not None:
            for one, tokens in zip(completions, written, strict=True):
                on_tokens(one.id, one.sample, tokens)
        found |= {(completion.id, completion.sample): completion for completion in completions}
        if on_batch is not None:
            on_batch(completions)
        if on_states is not None and states is not None:
            on_states(states)
    return [found[prompt.id, sample] for prompt in rendered for sample in range(n_samples)]


def _check_counts(
    max_new_tokens: int, n_samples: int, batch_size: int, temperature: float | None
) -> None:
    for name, count in (
        ("max_new_tokens", max_new_tokens),
        ("n_samples", n_samples),
        ("batch_size", batch_size),
    ):
        if count < 1:
            raise ValueError(f"{name}: {count} is not positive")
    if temperature is not None and not temperature > 0:
        raise ValueError(f"temperature: {temperature} is not positive; None is greedy")
    if temperature is None and n_samples > 1:
        raise ValueError(
            f"n_samples: {n_samples} greedy completions would be equal; give a temperature"
        )


def _one_a_prompt(
    decided: Callable[[str], bool] | Sequence[Callable[[str], bool]] | None, n_prompts: int
) -> Sequence[Callable[[str], bool] | None]:
    if decided is None or callable(decided):
        return [decided] * n_prompts
    if len(decided) != n_prompts:
        raise ValueError(
            f"decided: {len(decided)} functions for {n_prompts} prompts; give one, or one a prompt"
        )
    return decided


@dataclass(frozen=True)
class GenerationBatch:
    """Completions that are written side by side.

    Attributes:
        completions: each as its prompt and the number of the sample.
        prompts: what is read, a row each.
        prompt_of: per completion the row of its prompt.
    """

    completions: tuple[tuple[Rendered, int], ...]
    prompts: tuple[Rendered, ...]
    prompt_of: tuple[int, ...]

    @classmethod
    def of(cls, completions: Sequence[tuple[Rendered, int]], *, sharing: bool) -> GenerationBatch:
        """Let the samples of a prompt, which come one after the other, share its row if they may."""
        prompts: list[Rendered] = []
        prompt_of = []
        for prompt, _ in completions:
            if not (sharing and prompts and prompts[-1].id == prompt.id):
                prompts.append(prompt)
            prompt_of.append(len(prompts) - 1)
        return cls(tuple(completions), tuple(prompts), tuple(prompt_of))

    @property
    def firsts(self) -> list[int]:
        """The rows of the prompts whose first sample is written here: a prompt's states are captured once."""
        return [
            row
            for row, (_, sample) in zip(self.prompt_of, self.completions, strict=True)
            if sample == 0
        ]


def _batches(
    prompts: Sequence[Rendered], n_samples: int, size: int, model: Model, max_new_tokens: int
) -> Iterator[GenerationBatch]:
    """Divide the samples of prompts, in order, into batches; those of a prompt stay together if they fit.

    LongRoPE reads a batch as it reads the longest: prompts that may cross its switch are alone.
    """
    within = beyond = len(prompts)
    switch = model.architecture.rope_switch
    if switch is not None:
        within = sum(len(prompt) + max_new_tokens <= switch for prompt in prompts)
        beyond = sum(len(prompt) <= switch for prompt in prompts)
    together = max(1, size // n_samples)
    for part, step in (
        (prompts[:within], together),
        (prompts[within:beyond], 1),
        (prompts[beyond:], together),
    ):
        for start in range(0, len(part), step):
            wanted = [
                (p, sample) for p in part[start : start + step] for sample in range(n_samples)
            ]
            for first in range(0, len(wanted), size):
                yield GenerationBatch.of(
                    wanted[first : first + size], sharing=not model.architecture.cache_problem
                )


def _generate_batch(
    model: Model,
    batch: GenerationBatch,
    max_new_tokens: int,
    endings: Mapping[str, Ending],
    temperature: float | None,
    seed: int,
    spec: CaptureSpec | None,
    kept: Kept | None,
) -> tuple[list[list[int]], Activations | None]:
    """The tokens of every completion, and what was captured."""
    from transformers import GenerationConfig

    positions = (*(spec.positions if spec is not None else ()), *model.attached_positions)
    prefixes = [len(prompt) - 1 for prompt in batch.prompts]
    if kept is None:
        prefixes = shared_lengths(model, batch.prompts, max_new_tokens, positions)
    padded = padded_batch(batch.prompts, model.pad_id, side="left", prefixes=prefixes)
    firsts = padded.without_prefix(max(prefixes), batch.firsts)
    recorder = None
    if spec is not None and batch.firsts:
        recorder = Recorder(model, firsts, spec)
    sampling = None
    if temperature is not None:
        seeds = [row_seed(seed, prompt.id, sample) for prompt, sample in batch.completions]
        sampling = Sampling(seeds, temperature, model.device)
    decoding = Decoding(
        batch.prompt_of,
        [endings[prompt.id].over for prompt, _ in batch.completions],
        sampling,
        leaving=not model.architecture.cache_problem,
    )
    config = GenerationConfig(
        max_new_tokens=max_new_tokens, do_sample=False, pad_token_id=model.pad_id
    )
    with torch.inference_mode(), quiet_transformers(), _only_config(model.module, config):
        cache = prefix_cache(model, batch.prompts, prefixes, kept)
        with _prompts_first(model, padded, firsts if kept is None else None, recorder):
            written: list[list[int]] = model.module.generate(
                input_ids=padded.token_ids.to(model.device),
                attention_mask=padded.attention_mask(model.dtype).to(model.device),
                generation_config=config,
                custom_generate=decoding,
                **cache,
            )
    return written, None if recorder is None else recorder.activations()


@contextmanager
def _only_config(module: Any, config: Any) -> Iterator[None]:
    """Let no value of the model's own generation config (sampling, penalties) come in."""
    before, module.generation_config = module.generation_config, config
    try:
        yield
    finally:
        module.generation_config = before


@contextmanager
def _prompts_first(
    model: Model, batch: Batch, served: Batch | None, recorder: Recorder | None
) -> Iterator[None]:
    """Announce the batch, whose prompts are read (and recorded) by the first pass alone.

    Attachments are given the states of `served`.
    """
    with model.reading(batch) as reading, ExitStack() as stack:
        recording = stack.enter_context(ExitStack())
        if recorder is not None:
            recording.enter_context(recorder.watching())
        if served is not None and served.prompts:
            recording.enter_context(serving(model, served))

        def read(*_: Any) -> None:
            reading.prompts_read = True
            recording.close()

        # Of the whole model: OPT runs its decoder without calling what it calls its base model.
        stack.callback(model.module.register_forward_hook(read).remove)
        yield
