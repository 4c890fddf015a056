"""What a backend reads in one forward pass, in the order in which the pass comes by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hooks.activations import CaptureSpec
from hooks.backends import States
from hooks.batching import Batch
from hooks.gather import Gather
from hooks.model import Model

Point = tuple[str, int]
"""A site other than `embed` (which is `resid_pre` of block 0), and its layer."""

_ORDER = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")


def execution_order(point: Point) -> tuple[bool, int, int]:
    """Sort key that puts points in the order of the forward pass."""
    site, layer = point
    last = site == "final_norm"
    return last, layer, 0 if last else _ORDER.index(site)


class Points:
    """The points that a spec asks for in a batch, and the rows to copy out at each of them.

    Attributes:
        order: the points in execution order.
        flat: which slots of the flattened batch to copy: those of the named positions, then (for logits) those of the
            answers.
    """

    def __init__(self, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> None:
        self._model = model
        self._spec = spec
        self._logits = logits
        self._gather = Gather.of(batch, spec.positions, model.device)
        self.flat: Int[Tensor, "token"] = self._gather.flat
        points = {point for site in spec.sites for point in _points(spec, site)}
        if logits:
            points.add(("final_norm", 0))
            answers = Gather.of(batch, ("prompt_last",), model.device)
            self.flat = torch.cat([self.flat, answers.flat])
        self.order: tuple[Point, ...] = tuple(sorted(points, key=execution_order))

    def check(self, point: Point, shape: Sequence[int]) -> None:
        """Raise RuntimeError if what passes at a point is not `[row, slot, d_model]` of the batch."""
        self._gather.check(shape, *point)

    def rows(
        self, point: Point, states: Float[Tensor, "*slot d_model"]
    ) -> Float[Tensor, "token d_model"]:
        """Copy the wanted rows out of what passes at a point."""
        self.check(point, states.shape)
        return states.reshape(-1, states.shape[-1]).index_select(0, self.flat.to(states.device))

    def states(self, rows: Mapping[Point, Float[Tensor, "token d_model"]]) -> States:
        """Average the rows of each position, and turn those of the answers into logits."""
        device = self._model.device
        n_tokens = len(self._gather.flat)
        sites = {
            site: torch.stack(
                [
                    self._gather.means(rows[point][:n_tokens].to(device))
                    for point in _points(self._spec, site)
                ],
                dim=1,
            )
            for site in self._spec.sites
        }
        if not self._logits:
            return States(sites)
        assert self._model.architecture.readout is not None
        with torch.inference_mode():
            answers = rows["final_norm", 0][n_tokens:].to(device)
            logits = self._model.architecture.readout(answers).to(device)
        # Cloned outside inference mode: its tensors could not be trained on.
        return States(sites, logits.clone())


def _points(spec: CaptureSpec, site: str) -> list[Point]:
    if site == "embed":
        return [("resid_pre", 0)]
    if site == "final_norm":
        return [("final_norm", 0)]
    return [(site, int(layer)) for layer in spec.layers]
