"""The optimizer of everything that is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


class WarmedUpAdamW:
    """AdamW whose learning rate rises for a tenth of the steps (`warmup`) and then falls to 0 in a line.

    Args:
        parameters: what is trained; gradients are clipped to a norm of 1 over all of it.
        steps: how many there will be.
        learning_rate: the highest.
        weight_decay: as AdamW has it.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        *,
        steps: int,
        learning_rate: float,
        weight_decay: float,
    ) -> None:
        self.warmup = max(steps // 10, 1)
        self._parameters = parameters
        self._steps = steps
        self._highest = learning_rate
        self._done = 0
        self._optimizer = torch.optim.AdamW(
            parameters, lr=1.0, betas=(0.9, 0.98), weight_decay=weight_decay
        )
        self._optimizer.zero_grad()  # of a training that broke down, the gradients may be left

    @property
    def learning_rate(self) -> float:
        """Of the next step."""
        rise = (self._done + 1) / self.warmup
        fall = (self._steps - self._done) / max(self._steps - self.warmup, 1)
        return self._highest * min(rise, fall)

    def step(self) -> float:
        """Go one step down the gradients that have been added up, forget them, and return their norm before clipping.

        Raises:
            FloatingPointError: the norm is NaN or infinite; no parameter has been changed.
        """
        norm = float(nn.utils.clip_grad_norm_(self._parameters, 1.0))
        if not math.isfinite(norm):
            raise FloatingPointError(f"the norm of the gradient is {norm}")
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._done += 1
        return norm

    def state(self) -> dict[str, Tensor]:
        """What the next steps depend on beside the parameters and how many steps were done."""
        return {
            f"{place}.{name}": value
            for place, own in self._optimizer.state_dict()["state"].items()
            for name, value in own.items()
        }

    def restore(self, state: Mapping[str, Tensor], done: int) -> None:
        """Go on where another one stood, that had the same parameters in the same order, after `done` steps."""
        own: dict[int, dict[str, Tensor]] = {}
        for key, value in state.items():
            place, _, name = key.partition(".")
            own.setdefault(int(place), {})[name] = value
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": own, "param_groups": groups})
        self._done = done
