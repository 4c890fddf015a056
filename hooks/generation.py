"""Batched generation, greedy or sampled, that does not depend on the size of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from hooks.activations import Activations, CaptureSpec
from hooks.backends.torch import Recorder
from hooks.batching import Batch, common_prefix, padded_batch
from hooks.model import Model
from hooks.plan import may_share, render_all
from hooks.positions import check_positions, token_range
from hooks.prompts import STAND_IN, Prompt, Rendered
from hooks.sampling import GumbelNoise, row_seed
from hooks.weights import quiet_transformers


@dataclass(frozen=True)
class Completion:
    """What a model wrote.

    Attributes:
        id: the prompt's id.
        sample: which of the prompt's samples, from 0.
        text: the text without special tokens.
        n_tokens: number of tokens before the stop.
        finished: whether the model stopped by itself, within the budget.
    """

    id: str
    sample: int
    text: str
    n_tokens: int
    finished: bool


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
) -> list[Completion]:
    """Let the model answer every prompt.

    Sampling draws from the softmax at a temperature by the Gumbel-max trick, with noise seeded by
    (seed, prompt id, sample): a completion does not depend on what else is in its batch.

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

    Returns:
        All samples of the first prompt, then of the second, and so on.

    Raises:
        ValueError: names the field, the value and the mend, before any work starts.
    """
    _check_counts(max_new_tokens, n_samples, batch_size, temperature)
    if (spec is None) != (on_states is None):
        raise ValueError("on_states: give spec and on_states together, or neither")
    rendered = render_all(model, prompts, max_new_tokens)
    if spec is not None:
        spec = spec.resolve(model.n_layers)
        model.architecture.require(spec.sites)
        check_positions(rendered, spec.positions)
    wanted = sorted(
        ((prompt, sample) for prompt in rendered for sample in range(n_samples)),
        key=lambda pair: (len(pair[0]), pair[0].token_ids, pair[0].id, pair[1]),
    )
    stops = stop_tokens(model)
    found: dict[tuple[str, int], Completion] = {}
    for pairs in _batches(wanted, batch_size, model.architecture.rope_switch, max_new_tokens):
        completions, states = _generate_batch(
            model, pairs, max_new_tokens, stops, temperature, seed, spec
        )
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


def _batches(
    wanted: Sequence[tuple[Rendered, int]], size: int, switch: int | None, max_new_tokens: int
) -> Iterator[Sequence[tuple[Rendered, int]]]:
    """Divide completions, sorted by length, into batches.

    LongRoPE reads a batch as it reads the longest: those that may cross its switch are alone.
    """
    within = beyond = len(wanted)
    if switch is not None:
        within = sum(len(prompt) + max_new_tokens <= switch for prompt, _ in wanted)
        beyond = sum(len(prompt) <= switch for prompt, _ in wanted)
    for part, step in (
        (wanted[:within], size),
        (wanted[within:beyond], 1),
        (wanted[beyond:], size),
    ):
        for start in range(0, len(part), step):
            yield part[start : start + step]


def stop_tokens(model: Model) -> tuple[int, ...]:
    """Return the tokens that end an answer: EOS, and what the chat template ends a turn with."""
    stops: set[int] = set()
    for holder in (model.tokenizer, model.module.config, model.module.generation_config):
        ids = getattr(holder, "eos_token_id", None)
        if ids is not None:
            stops.update(ids if isinstance(ids, list | tuple) else (ids,))
    end_of_turn = _end_of_turn(model.tokenizer)
    if end_of_turn is not None:
        stops.add(end_of_turn)
    return tuple(sorted(stops))


def _end_of_turn(tokenizer: Any) -> int | None:
    """Return the special token that the chat template puts behind an assistant's message."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": STAND_IN}]
    after = tokenizer.apply_chat_template(turns, tokenize=False).partition(STAND_IN)[2]
    ids = tokenizer(after, add_special_tokens=False)["input_ids"]
    added = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    return int(ids[0]) if ids and ids[0] in added else None


def _generate_batch(
    model: Model,
    pairs: Sequence[tuple[Rendered, int]],
    max_new_tokens: int,
    stops: tuple[int, ...],
    temperature: float | None,
    seed: int,
    spec: CaptureSpec | None,
) -> tuple[list[Completion], Activations | None]:
    from transformers import GenerationConfig, LogitsProcessorList

    prompts = [prompt for prompt, _ in pairs]
    positions = spec.positions if spec is not None else ()
    prefix = _shared_prefix(model, prompts, max_new_tokens, positions)
    batch = padded_batch(prompts, model.pad_id, side="left", prefix=prefix)
    firsts = [row for row, (_, sample) in enumerate(pairs) if sample == 0]
    recorder = None
    if spec is not None and firsts:
        recorder = Recorder(model, batch.without_prefix(prefix, firsts), spec)
    processors = LogitsProcessorList()
    if temperature is not None:
        seeds = [row_seed(seed, prompt.id, sample) for prompt, sample in pairs]
        processors.append(GumbelNoise(seeds, temperature, model.device))
    config = GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=False,
        eos_token_id=list(stops) or None,
        pad_token_id=model.pad_id,
    )
    with torch.inference_mode(), quiet_transformers(), _only_config(model.module, config):
        cache = _prefix_cache(model, prompts[0].token_ids[:prefix], len(prompts))
        with _prompts_first(model, batch, recorder):
            output = model.module.generate(
                input_ids=batch.token_ids.to(model.device),
                attention_mask=batch.attention_mask(model.dtype).to(model.device),
                generation_config=config,
                logits_processor=processors,
                **cache,
            )
    width = batch.token_ids.shape[1]
    completions = [
        _completion(model, prompt.id, sample, row[width:].tolist(), stops)
        for (prompt, sample), row in zip(pairs, output.cpu(), strict=True)
    ]
    return completions, None if recorder is None else recorder.activations()


def _shared_prefix(
    model: Model, prompts: Sequence[Rendered], max_new_tokens: int, positions: Sequence[str]
) -> int:
    """Return how many leading tokens to compute once: those that all prompts share, less the last.

    Positions to be captured come behind them.

    Windowed layers count slots, and padding behind the prefix takes some: so none is shared where
    the window could be reached.
    """
    longest, window = max(map(len, prompts)), model.architecture.window
    fits = window is None or longest + max_new_tokens <= window
    if len(prompts) == 1 or not fits or not may_share(model):
        return 0
    shared = min(common_prefix(prompts[0].token_ids, prompt.token_ids) for prompt in prompts)
    firsts = [token_range(p, position)[0] for p in prompts for position in positions]
    return min(shared, min(map(len, prompts)) - 1, *firsts)


def _prefix_cache(model: Model, prefix: Sequence[int], n_rows: int) -> dict[str, Any]:
    """Return the keys and values of a prefix for every row, under the name that generate takes."""
    if not prefix:
        return {}
    tokens = torch.tensor([list(prefix)], device=model.device)
    output = model.architecture.backbone(input_ids=tokens, use_cache=True)
    # transformers 5 renamed it on the way.
    name = "cache" if "cache" in output else "past_key_values"
    cache = output[name]
    cache.batch_repeat_interleave(n_rows)
    return {name: cache}


def _completion(
    model: Model, id: str, sample: int, tokens: list[int], stops: tuple[int, ...]
) -> Completion:
    n_tokens = next((i for i, token in enumerate(tokens) if token in stops), len(tokens))
    text = model.tokenizer.decode(tokens[:n_tokens], skip_special_tokens=True)
    return Completion(id, sample, text, n_tokens, finished=n_tokens < len(tokens))


@contextmanager
def _only_config(module: Any, config: Any) -> Iterator[None]:
    """Let no value of the model's own generation config (sampling, penalties) come in."""
    before, module.generation_config = module.generation_config, config
    try:
        yield
    finally:
        module.generation_config = before


@contextmanager
def _prompts_first(model: Model, batch: Batch, recorder: Recorder | None) -> Iterator[None]:
    """Announce the batch, whose prompts are read (and recorded) by the first pass alone."""
    with model.reading(batch) as reading, ExitStack() as stack:
        recording = stack.enter_context(ExitStack())
        if recorder is not None:
            recording.enter_context(recorder.watching())

        def read(*_: Any) -> None:
            reading.prompts_read = True
            recording.close()

        # Of the whole model: OPT runs its decoder without calling what it calls its base model.
        stack.callback(model.module.register_forward_hook(read).remove)
        yield
