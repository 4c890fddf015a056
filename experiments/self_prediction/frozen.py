"""A head on states that were read beforehand: the trunk below it stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from experiments.self_prediction.heads import SelfPredictionHead, Target
from experiments.self_prediction.schedule import examples_of_step
from experiments.self_prediction.splits import MIN_OF_CLASS, TooFewError

Rows = Float[Tensor, "row column"] | Float[np.ndarray, "row column"]


class FrozenHead:
    """An `Objective` over states that are held in memory.

    Args:
        head: is standardized to the training rows, and trained.
        states_train, labels_train: what is learned from; labels are NaN where unknown.
        states_validation, labels_validation: what decides when to stop.
        batch: rows of a step; None takes all of them.
        accumulate: micro-batches of a step.
        seed: of the choice of rows.

    Raises:
        TooFewError: a target has too few labels of a class to learn from, or none to stop by.
        ValueError: shapes that do not agree, states that are not finite, or a label of a binary target outside 0 to 1.
    """

    def __init__(
        self,
        head: SelfPredictionHead,
        states_train: Rows,
        labels_train: Rows,
        states_validation: Rows,
        labels_validation: Rows,
        *,
        batch: int | None = None,
        accumulate: int = 1,
        seed: int = 0,
    ) -> None:
        self.parameters: Mapping[str, nn.Parameter] = dict(head.named_parameters())
        self.metrics: Mapping[str, float] = {}
        self._head = head
        self._train = _rows(head, "training", states_train, labels_train)
        self._validation = _rows(head, "validation", states_validation, labels_validation)
        check_labels(head.targets, self._train[1], "training")
        for target, known in zip(head.targets, _known(self._validation[1]), strict=True):
            if not known.any():
                raise TooFewError(
                    f"labels: target {target.name!r} has no validation row; give some to stop by"
                )
        head.standardize(*self._train)
        self._batch = batch
        self._accumulate = accumulate
        self._seed = seed

    def losses(self, step: int) -> Iterator[Tensor]:
        """The step's micro-batches, each weighted by its share of the step's known labels."""
        states, labels = self._train
        chosen = self._chosen(step, len(states)).to(labels.device)
        n_known = (~labels[chosen].isnan()).sum().clamp_min(1)
        for rows in chosen.tensor_split(min(self._accumulate, len(chosen))):
            share = (~labels[rows].isnan()).sum() / n_known
            yield share * self._head.loss(states[rows], labels[rows])

    def validate(self) -> float:
        """The head's loss on the validation rows."""
        return float(self._head.loss(*self._validation))

    def _chosen(self, step: int, n_rows: int) -> Tensor:
        if self._batch is None or self._batch >= n_rows:
            return torch.arange(n_rows)
        return torch.from_numpy(examples_of_step(step, self._batch, n_rows, self._seed))


def check_labels(targets: Sequence[Target], labels: Float[Tensor, "row target"], of: str) -> None:
    """Refuse labels that nothing can be learned from.

    Raises:
        TooFewError: a binary target has fewer than 10 labels of a class (rates from a half on count as 1), or a number
            fewer than 10 labels or the same one everywhere.
        ValueError: a label of a binary target outside 0 to 1.
    """
    for target, column in zip(targets, labels.T, strict=True):
        values = column[~column.isnan()]
        if target.kind == "number":
            if len(values) < MIN_OF_CLASS or len(values.unique()) < 2:
                raise TooFewError(
                    f"labels: number {target.name!r} has {len(values)} labels in {of} rows, {len(values.unique())} of "
                    f"them different; at least {MIN_OF_CLASS} and 2 are needed, so give more items"
                )
            continue
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError(
                f"labels: binary target {target.name!r} has labels outside 0 to 1; make it a number, or give rates"
            )
        ones = int((values >= 0.5).sum())
        for name, n in (("1", ones), ("0", len(values) - ones)):
            if n < MIN_OF_CLASS:
                raise TooFewError(
                    f"labels: target {target.name!r} has {n} labels {name} in {of} rows, at least {MIN_OF_CLASS} are "
                    "needed; give more items"
                )


def _rows(
    head: SelfPredictionHead, of: str, states: Rows, labels: Rows
) -> tuple[Float[Tensor, "row d_model"], Float[Tensor, "row target"]]:
    held, known = (torch.as_tensor(one).to(head.mean) for one in (states, labels))
    if held.ndim != 2 or held.shape[1] != head.d_model:
        raise ValueError(
            f"states: shape {tuple(held.shape)} of {of} rows, the head reads (row, {head.d_model})"
        )
    if tuple(known.shape) != (len(held), len(head.targets)):
        raise ValueError(
            f"labels: shape {tuple(known.shape)} of {of} rows, not ({len(held)}, {len(head.targets)})"
        )
    if bad := int((~held.isfinite().all(dim=1)).sum()):
        raise ValueError(f"states: {bad} {of} rows hold nan or inf; read them in a wider precision")
    return held, known


def _known(labels: Float[Tensor, "row target"]) -> Tensor:
    """`[target, row]`: where there is a label."""
    return ~labels.isnan().T
