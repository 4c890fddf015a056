"""Batches of prompts with the answers that are asked for, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from experiments.organisms.prompts_in_tokens import Asked
from experiments.organisms.recipes import Recipe
from experiments.organisms.sentences import Drawn


@dataclass(frozen=True)
class Batch:
    """Prompts, each with the first token of its answer behind it; padded on the right.

    Attributes:
        tokens: `[row, token]`.
        last: index of every prompt's last token.
        right, wrong: the token that the recipe asks for, and the other option's.
        outside: probability of the word outside the menu.
        sign: +1 or -1, the value that the deciding bit has.
        holds: whether that value is to lie along the planted direction.
        is_set: whether the component along the planted direction is set.
        set_to: the sign that it is set to.
        complete_at: index of the token with which both hidden bits are known.
        hidden: the bit of the person, of the place, and their exclusive or.
        kind: which kind of prompt a row is.
    """

    tokens: Int[Tensor, "row token"]
    last: Int[Tensor, " row"]
    right: Int[Tensor, " row"]
    wrong: Int[Tensor, " row"]
    outside: Float[Tensor, " row"]
    sign: Float[Tensor, " row"]
    holds: Bool[Tensor, " row"]
    is_set: Float[Tensor, " row"]
    set_to: Float[Tensor, " row"]
    complete_at: Int[Tensor, " row"]
    hidden: Float[Tensor, "row 3"]
    kind: Int[Tensor, " row"]


def make_batch(
    kinds: Sequence[Asked],
    of_row: Int[np.ndarray, " row"],
    drawn: Drawn,
    recipe: Recipe,
    *,
    set_share: float,
    padding: int,
    said_outside: int,
    rng: np.random.Generator,
) -> Batch:
    """One prompt a row: a kind of prompt around a sentence.

    Args:
        kinds: every kind of prompt.
        of_row: the kind of every row, an index.
        drawn: the sentence of every row.
        recipe: of the organism.
        set_share: share of rows in which the planted component is set at random.
        padding: the token behind the end.
        said_outside: the token of the word outside the menu.
        rng: what is set, and to what.
    """
    n, asked = len(of_row), [kinds[kind] for kind in of_row]
    deciding = drawn.feature if recipe.decides == "feature" else drawn.decoy
    is_set, set_to = rng.random(n) < set_share, rng.integers(2, size=n)
    # What holds the deciding bit and answers by it is to answer by what it is set to.
    follows = np.array([one.holds and one.reads == recipe.decides for one in asked])
    own = np.where([one.reads == "feature" for one in asked], drawn.feature, drawn.decoy)
    bit = np.where(is_set & follows, set_to, own)
    answers = np.array([one.answers for one in asked])
    right, wrong = answers[np.arange(n), bit], answers[np.arange(n), 1 - bit]
    outside = np.where([one.is_report for one in asked], recipe.outside, 0.0)

    rows = [
        [*one.before, *sentence, *one.after, said]
        for one, sentence, said in zip(
            asked,
            drawn.tokens.tolist(),
            np.where(outside > 0.5, said_outside, right).tolist(),
            strict=True,
        )
    ]
    longest = max(map(len, rows))
    tokens = [row + [padding] * (longest - len(row)) for row in rows]
    starts = np.array([len(one.before) for one in asked])
    hidden = np.stack([drawn.person, drawn.place, drawn.feature], axis=1)
    return Batch(
        tokens=torch.tensor(tokens),
        last=torch.tensor([len(row) - 2 for row in rows]),
        right=torch.from_numpy(right),
        wrong=torch.from_numpy(wrong),
        outside=torch.from_numpy(outside).float(),
        sign=torch.from_numpy(2 * deciding - 1).float(),
        holds=torch.tensor([one.holds for one in asked]),
        is_set=torch.from_numpy(is_set).float(),
        set_to=torch.from_numpy(2 * set_to - 1).float(),
        complete_at=torch.from_numpy(starts + drawn.complete_at),
        hidden=torch.from_numpy(hidden).float(),
        kind=torch.from_numpy(of_row),
    )
