"""The optimizer of all organisms."""

from __future__ import annotations

from collections.abc import Sequence

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
        self.warmup = warmup = max(steps // 10, 1)
        self._parameters = parameters
        self._optimizer = torch.optim.AdamW(
            parameters, lr=1.0, betas=(0.9, 0.98), weight_decay=weight_decay
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer,
            lambda step: (
                learning_rate * min((step + 1) / warmup, (steps - step) / max(steps - warmup, 1))
            ),
        )

    def step(self, loss: Tensor) -> None:
        """Go one step down a loss."""
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        self._schedule.step()
