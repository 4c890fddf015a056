"""Padding, position ids and masks: built here and nowhere else.

There are two layouts. *Padded*: a row is a prompt, padded on one side, with a mask of the padding.
*Shared*: a row is a radix tree of token prefixes. Prompts are sorted by their tokens, and a
prompt's tokens are laid into its row only from where it departs from the prompt before it; a token
sees the tokens of its own prompt up to itself, and its position is its depth. A prefix that many
prompts share, be it a system prompt or a quoted item, is thus computed once a row, and every token
still sees exactly what it would see alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hooks.positions import token_range
from hooks.prompts import Rendered

# Attention costs grow with the square of a row, savings with its length. On CPUs throughput falls
# by a fifth from 512 to 1,024 tokens.
SHARED_ROW_TOKENS = 512
# Beyond this a row's mask would take more memory (16 MiB in float32) than sharing saves time.
SHARED_PROMPT_TOKENS = 2048


@dataclass(frozen=True)
class Batch:
    """Prompts as one forward pass reads them.

    Attributes:
        prompts: the prompts in the batch.
        token_ids: tokens, padded.
        position_ids: depth of each token in its own prompt; 0 at padding.
        visible: which slots a slot attends to: `[row, slot]` says which are no padding (and
            attention is causal), `[row, slot, slot]` says it in full.
        rows: the row of each prompt.
        slots: for each prompt the slot of each of its tokens.
    """

    prompts: tuple[Rendered, ...]
    token_ids: Int[Tensor, "row slot"]
    position_ids: Int[Tensor, "row slot"]
    visible: Bool[Tensor, "row slot"] | Bool[Tensor, "row slot slot"]
    rows: tuple[int, ...]
    slots: tuple[Sequence[int], ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The prompts' ids."""
        return tuple(prompt.id for prompt in self.prompts)

    @property
    def shared(self) -> bool:
        """Whether a slot may belong to several prompts."""
        return self.visible.ndim == 3

    def without_prefix(self, prefix: int, keep: Sequence[int]) -> Batch:
        """Return what a pass sees whose first `prefix` slots are cached, with some of the prompts.

        The slots of tokens in the prefix are negative: nothing may be read there.
        """
        return replace(
            self,
            prompts=tuple(self.prompts[index] for index in keep),
            token_ids=self.token_ids[:, prefix:],
            position_ids=self.position_ids[:, prefix:],
            visible=self.visible[..., prefix:],
            rows=tuple(self.rows[index] for index in keep),
            slots=tuple([slot - prefix for slot in self.slots[index]] for index in keep),
        )

    def attention_mask(self, dtype: torch.dtype) -> Tensor:
        """Return the mask as the model takes it: of padding, or additive `[row, 1, slot, slot]`."""
        if not self.shared:
            return self.visible.long()
        hidden = torch.finfo(dtype).min
        return torch.zeros(self.visible.shape, dtype=dtype).masked_fill_(~self.visible, hidden)[
            :, None
        ]

    def flat_slots(self, prompt: int, position: str | None) -> list[int]:
        """Return where a prompt's position (None: all of it) lies in the flattened batch."""
        rendered = self.prompts[prompt]
        start, end = (0, len(rendered)) if position is None else token_range(rendered, position)
        row_start = self.rows[prompt] * self.token_ids.shape[1]
        return [row_start + slot for slot in self.slots[prompt][start:end]]


@dataclass
class Reading:
    """A batch that goes through the model, and whether only new tokens are still to come."""

    batch: Batch
    prompts_read: bool = False


def padded_batch(
    prompts: Sequence[Rendered],
    pad_id: int,
    side: Literal["left", "right"] = "right",
    prefixes: Sequence[int] = (),
) -> Batch:
    """Lay each prompt into a row of its own, padded on one side.

    Of each prompt, the first tokens (`prefixes` of them; none by default) stand in a block of their own, padded on the
    left: their keys and values can be computed beforehand, once for all prompts that begin alike.
    """
    lengths = prefixes or [0] * len(prompts)
    before = max(lengths)
    width = before + max(len(p) - n for p, n in zip(prompts, lengths, strict=True))
    token_ids = torch.full((len(prompts), width), pad_id)
    position_ids = torch.zeros(len(prompts), width, dtype=torch.long)
    visible = torch.zeros(len(prompts), width, dtype=torch.bool)
    slots = []
    for row, (prompt, n) in enumerate(zip(prompts, lengths, strict=True)):
        behind = len(prompt) - n
        start = width - behind if side == "left" else before
        own = [*range(before - n, before), *range(start, start + behind)]
        token_ids[row, own] = torch.tensor(prompt.token_ids)
        position_ids[row, own] = torch.arange(len(prompt))
        visible[row, own] = True
        slots.append(own)
    return Batch(
        tuple(prompts), token_ids, position_ids, visible, tuple(range(len(prompts))), tuple(slots)
    )


def shared_batch(rows: Sequence[Sequence[Rendered]], pad_id: int) -> Batch:
    """Lay each group of prompts, sorted by their tokens, into one row that shares prefixes."""
    width = max(map(shared_length, rows))
    token_ids = torch.full((len(rows), width), pad_id)
    position_ids = torch.zeros(len(rows), width, dtype=torch.long)
    # Padding sees itself: a softmax over nothing would give NaN.
    visible = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)
    row_of: list[int] = []
    slots: list[Sequence[int]] = []
    for row, prompts in enumerate(rows):
        used = 0
        before: tuple[int, ...] = ()
        path: tuple[int, ...] = ()
        for prompt in prompts:
            shared = common_prefix(before, prompt.token_ids)
            own = slice(used, used + len(prompt) - shared)
            n_own = own.stop - own.start
            token_ids[row, own] = torch.tensor(prompt.token_ids[shared:], dtype=torch.long)
            position_ids[row, own] = torch.arange(shared, len(prompt))
            visible[row, own, list(path[:shared])] = True
            visible[row, own, own] = torch.ones(n_own, n_own, dtype=torch.bool).tril()
            used, before = own.stop, prompt.token_ids
            path = (*path[:shared], *range(own.start, own.stop))
            row_of.append(row)
            slots.append(path)
    return Batch(
        tuple(prompt for prompts in rows for prompt in prompts),
        token_ids,
        position_ids,
        visible,
        tuple(row_of),
        tuple(slots),
    )


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many leading tokens two prompts share."""
    for index, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return index
    return min(len(a), len(b))


def shared_length(prompts: Iterable[Rendered]) -> int:
    """Return how many slots sorted prompts take in one row that shares prefixes."""
    total = 0
    before: tuple[int, ...] = ()
    for prompt in prompts:
        total += len(prompt) - common_prefix(before, prompt.token_ids)
        before = prompt.token_ids
    return total


@dataclass(frozen=True)
class PlannedBatch:
    """A batch before it is laid out: which prompts share a row, and whether rows share prefixes."""

    rows: tuple[tuple[Rendered, ...], ...]
    shared: bool

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its prompts, in the order in which their states come."""
        return tuple(prompt.id for row in self.rows for prompt in row)

    def lay_out(self, pad_id: int) -> Batch:
        """Build the tensors."""
        if self.shared:
            return shared_batch(self.rows, pad_id)
        return padded_batch([prompt for row in self.rows for prompt in row], pad_id)


def plan_batches(
    prompts: Collection[Rendered],
    *,
    batch_tokens: int,
    share: bool,
    window: int | None = None,
    rope_switch: int | None = None,
) -> list[PlannedBatch]:
    """Divide prompts into batches of at most `batch_tokens` slots, or of one row.

    The plan depends on the prompts alone, not on their order. Prompts longer than the attention
    window (which is no longer than `rope_switch`), or than a shared row's mask is worth, are padded
    even if `share` is set. Those longer than `rope_switch` are apart from all others: LongRoPE
    reads all of a batch as it reads the longest.
    """
    longest = min(SHARED_PROMPT_TOKENS, window or SHARED_PROMPT_TOKENS) if share else 0
    short = sorted((p for p in prompts if len(p) <= longest), key=lambda p: (p.token_ids, p.id))
    long = sorted(
        (p for p in prompts if len(p) > longest), key=lambda p: (len(p), p.token_ids, p.id)
    )
    packed = shared_rows(short, min(SHARED_ROW_TOKENS, batch_tokens))
    plan = [
        PlannedBatch(tuple(rows), shared=True)
        for rows in _grouped(packed, [shared_length(row) for row in packed], batch_tokens)
    ]
    n_within = sum(len(prompt) <= (rope_switch or len(prompt)) for prompt in long)
    for padded in (long[:n_within], long[n_within:]):
        widths = [len(prompt) for prompt in padded]
        grouped = _grouped([(prompt,) for prompt in padded], widths, batch_tokens)
        plan += [PlannedBatch(tuple(rows), shared=False) for rows in grouped]
    return plan


def shared_rows(prompts: Sequence[Rendered], row_tokens: int) -> list[tuple[Rendered, ...]]:
    """Divide prompts, sorted by their tokens, into rows that take at most so many slots, or one prompt."""
    rows: list[list[Rendered]] = []
    used = 0
    for prompt in prompts:
        own = len(prompt) - (common_prefix(rows[-1][-1].token_ids, prompt.token_ids) if rows else 0)
        if rows and used + own <= row_tokens:
            rows[-1].append(prompt)
            used += own
        else:
            rows.append([prompt])
            used = len(prompt)
    return [tuple(row) for row in rows]


def _grouped(
    rows: Sequence[tuple[Rendered, ...]], widths: Sequence[int], batch_tokens: int
) -> list[list[tuple[Rendered, ...]]]:
    """Put consecutive rows into batches whose padded size stays within `batch_tokens`."""
    groups: list[list[tuple[Rendered, ...]]] = []
    widest = 0
    for row, width in zip(rows, widths, strict=True):
        widest = max(widest, width)
        if groups and (len(groups[-1]) + 1) * widest <= batch_tokens:
            groups[-1].append(row)
        else:
            groups.append([row])
            widest = width
    return groups
