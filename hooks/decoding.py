"""The loop that writes: every prompt is read once, its completions go on from there, and those that are over leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hooks.architecture import find_cache
from hooks.sampling import Sampling


class Decoding:
    """A decoding loop for transformers' `generate(custom_generate=...)`, which prepares masks, positions and caches.

    Args:
        prompt_of: per completion the row of its prompt in what `generate` is given.
        over: per completion a function that is told its tokens after each new one, and tells whether it is over.
        sampling: a stream a completion; None is greedy.
        leaving: whether the model's cache can part with rows and repeat them (`Architecture.cache_problem`). Where it
            cannot, `prompt_of` must be 0, 1, 2 ..., and what is over is read on with the others, unheeded.
    """

    def __init__(
        self,
        prompt_of: Sequence[int],
        over: Sequence[Callable[[Sequence[int]], bool]],
        sampling: Sampling | None,
        *,
        leaving: bool,
    ) -> None:
        self._prompt_of = list(prompt_of)
        self._over = over
        self._sampling = sampling
        self._leaving = leaving

    def __call__(
        self,
        module: Any,
        input_ids: Int[Tensor, "prompt token"],
        generation_config: Any,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        **inputs: Any,
    ) -> list[list[int]]:
        """Return per completion its tokens, with the one that it stopped at."""
        outputs = module._prefill(input_ids, generation_config, inputs)
        inputs = module._update_model_kwargs_for_generation(outputs, inputs)
        scores = _last_scores(outputs)
        if self._prompt_of != list(range(len(input_ids))):
            input_ids, scores = input_ids[self._prompt_of], scores[self._prompt_of]
            _keep_rows(inputs, self._prompt_of)
        with module._optimize_model_for_decode():  # experts on a GPU are run in another way
            return self._write(module, input_ids, scores, generation_config.max_new_tokens, inputs)

    def _write(
        self,
        module: Any,
        input_ids: Int[Tensor, "row token"],
        scores: Float[Tensor, "row vocabulary"],
        max_new_tokens: int,
        inputs: dict[str, Any],
    ) -> list[list[int]]:
        written: list[list[int]] = [[] for _ in self._over]
        rows = list(range(len(written)))  # the completion that each row writes
        running = set(rows)
        for n_written in range(1, max_new_tokens + 1):
            new = self._choose(scores)
            input_ids = torch.cat([input_ids, new[:, None]], dim=-1)
            for completion, token in zip(rows, new.tolist(), strict=True):
                if completion in running:
                    written[completion].append(token)
                    if self._over[completion](written[completion]):
                        running.remove(completion)
            if not running or n_written == max_new_tokens:
                break
            if self._leaving and len(running) < len(rows):
                stay = [row for row, completion in enumerate(rows) if completion in running]
                rows = [rows[row] for row in stay]
                input_ids = input_ids[stay]
                _keep_rows(inputs, stay)
                if self._sampling is not None:
                    self._sampling.keep(stay)
            outputs = module(
                **module.prepare_inputs_for_generation(
                    input_ids, next_sequence_length=1 if inputs["use_cache"] else None, **inputs
                ),
                return_dict=True,
            )
            inputs = module._update_model_kwargs_for_generation(outputs, inputs)
            scores = _last_scores(outputs)
        return written

    def _choose(self, scores: Float[Tensor, "row vocabulary"]) -> Int[Tensor, "row"]:
        return scores.argmax(dim=-1) if self._sampling is None else self._sampling(scores)


def _last_scores(outputs: Any) -> Float[Tensor, "row vocabulary"]:
    scores: Tensor = outputs.logits[:, -1].to(torch.float32, copy=True)
    return scores


def _keep_rows(inputs: dict[str, Any], rows: Sequence[int]) -> None:
    """Make row i of what `generate` carries from step to step the former row `rows[i]`."""
    for name, value in inputs.items():
        if isinstance(value, Tensor) and value.ndim >= 2:  # masks and positions; some are in threes
            index = torch.tensor(rows, device=value.device)
            inputs[name] = value.index_select(value.ndim - 2, index)
    _, cache = find_cache(inputs)
    if cache is not None:
        cache.reorder_cache(torch.tensor(rows))
