"""Supervised training of the words: the true answer behind the question what the model will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from torch import Tensor, nn

from experiments.self_prediction.continuations import Continuation, continuation_logprobs
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.schedule import check_batches, examples_of_step
from experiments.self_prediction.spelled import answer_tokens
from experiments.tasks import Elicitation
from hooks import Model, check_lengths, render


class SayIt:
    """Cross entropy of the true answer, summed over its tokens and the end of the turn; an `Objective`.

    A step asks about `batch` pairs of item and question, of which an epoch holds all.

    Args:
        model: with adapters in place, or with weights of its own that are trained.
        train, validation: items with labels.
        elicitations: the questions, each of every item.
        parameters: what is trained, by name.
        batch: pairs a step.
        accumulate: into how many micro-batches a step is divided, to save memory.
        seed: of the order.

    Raises:
        ValueError: no items or questions, a count out of range, or a prompt longer than the model reads.
    """

    def __init__(
        self,
        model: Model,
        train: Labeled,
        validation: Labeled,
        elicitations: Sequence[Elicitation],
        *,
        parameters: Mapping[str, nn.Parameter],
        batch: int = 16,
        accumulate: int = 1,
        seed: int = 0,
    ) -> None:
        check_batches(train, validation, batch, accumulate)
        if not elicitations:
            raise ValueError("elicitations: none; give at least one question")
        self.parameters = parameters
        self.metrics: Mapping[str, float] = {}
        self._model = model
        self._batch = batch
        self._accumulate = accumulate
        self._seed = seed
        self._train = _answered(model, train, elicitations)
        self._validation = _answered(model, validation, elicitations)

    def losses(self, step: int) -> Iterator[Tensor]:
        """The step's micro-batches; their sum is the mean over its pairs."""
        chosen = examples_of_step(step, self._batch, len(self._train), self._seed)
        for part in np.array_split(chosen, self._accumulate):
            said = continuation_logprobs(self._model, [self._train[i] for i in part])
            yield -said.sum() / self._batch

    def validate(self) -> float:
        """Mean over the validation items and all questions."""
        return -float(continuation_logprobs(self._model, self._validation).detach().mean())


def _answered(
    model: Model, labeled: Labeled, elicitations: Sequence[Elicitation]
) -> list[Continuation]:
    """Every item asked every question, item-major, with the answer that its label makes true."""
    answers = [(answer_tokens(model, e.no), answer_tokens(model, e.yes)) for e in elicitations]
    longest = max(len(tokens) for pair in answers for tokens in pair)
    prompts = [e.prompt(item) for item in labeled.items for e in elicitations]
    check_lengths(model, prompts, longest)
    truth = np.repeat(labeled.outcome, len(elicitations)).tolist()
    return [
        Continuation(render(model, prompt), answers[i % len(elicitations)][outcome])
        for i, (prompt, outcome) in enumerate(zip(prompts, truth, strict=True))
    ]
