"""A head and the trunk below it, trained together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from experiments.adapters import Adapters
from experiments.self_prediction.heads import SelfPredictionHead
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.schedule import check_batches, examples_of_step
from experiments.self_prediction.states import differentiable_states
from experiments.self_prediction.verbal import SayIt
from hooks import Model, Rendered, check_lengths, render


class JointHead:
    """A head on the task prompt's state while the trunk's adapters learn too; an `Objective`.

    The head's loss reaches the trunk, unless `stop_gradient`: then the head learns from what the trunk gives, and the
    trunk from `words` alone. With `words` and without `stop_gradient` the trunk learns from both losses, added.

    Args:
        model: with `adapters` in place.
        head: sits at `head.place`; its target of the task's name is trained.
        adapters: of the trunk.
        train, validation: items with labels.
        batch: items a step; of `words` its own.
        accumulate: into how many micro-batches the head's items are divided, to save memory.
        seed: of the order.
        words: what the trunk learns to say beside.
        stop_gradient: whether the head's loss ends at the state that it reads.

    Raises:
        ValueError: no items, no such target, a count out of range, a prompt longer than the model reads or without the
            position, or `stop_gradient` without `words`.
    """

    def __init__(
        self,
        model: Model,
        head: SelfPredictionHead,
        adapters: Adapters,
        train: Labeled,
        validation: Labeled,
        *,
        batch: int = 16,
        accumulate: int = 1,
        seed: int = 0,
        words: SayIt | None = None,
        stop_gradient: bool = False,
    ) -> None:
        check_batches(train, validation, batch, accumulate)
        if stop_gradient and words is None:
            raise ValueError("stop_gradient: nothing is left that trains the trunk; give words")
        self.parameters: Mapping[str, nn.Parameter] = {
            **{f"head.{name}": p for name, p in head.named_parameters()},
            **{f"trunk.{name}": p for name, p in adapters.parameters.items()},
        }
        self.metrics: Mapping[str, float] = {}
        self._model = model
        self._head = head
        self._batch = batch
        self._accumulate = accumulate
        self._seed = seed
        self._words = words
        self._stop_gradient = stop_gradient
        self._train = _Read(model, head, train)
        self._validation = _Read(model, head, validation)

    def losses(self, step: int) -> Iterator[Tensor]:
        """The head's micro-batches, whose sum is the mean over its items, and then those of the words."""
        chosen = examples_of_step(step, self._batch, len(self._train.prompts), self._seed)
        total = 0.0
        for part in np.array_split(chosen, self._accumulate):
            loss = self._loss(self._train, part.tolist()) * (len(part) / self._batch)
            total += float(loss.detach())
            yield loss
        self.metrics = {"head_loss": total}
        if self._words is not None:
            yield from self._words.losses(step)

    def validate(self) -> float:
        """The head's loss on the validation items."""
        return float(self._loss(self._validation, range(len(self._validation.prompts))))

    def _loss(self, read: _Read, chosen: Sequence[int]) -> Tensor:
        prompts = [read.prompts[i] for i in chosen]
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self._stop_gradient):
            states = differentiable_states(self._model, prompts, self._head.place)
        labels = torch.from_numpy(read.labels[list(chosen)]).to(states.device)
        return self._head.loss(states, labels)


class _Read:
    """Task prompts of items, and the labels of all the head's targets: of those of other tasks NaN."""

    def __init__(self, model: Model, head: SelfPredictionHead, labeled: Labeled) -> None:
        names = [target.name for target in head.targets]
        task = labeled.task.name
        if task not in names:
            raise ValueError(f"head: has no target {task!r}; it has {', '.join(names)}")
        prompts = [item.prompt() for item in labeled.items]
        check_lengths(model, prompts, 1)
        self.prompts: list[Rendered] = [render(model, prompt) for prompt in prompts]
        self.labels: Float[np.ndarray, "item target"] = np.full(
            (len(labeled), len(names)), np.nan, dtype=np.float32
        )
        self.labels[:, names.index(task)] = labeled.outcome
