"""Batches for a model with a tokenizer of its own: prompts as a run renders them, with the answers asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from experiments.organisms.prompts_in_tokens import Question
from experiments.organisms.recipes import Recipe
from experiments.organisms.sentences import PERSON, PLACE, PLANTED, Sentence
from experiments.organisms.xor_task import FAILS, HAPPENS, item_of
from hooks import Prompt, render

IGNORED = -100
"""A target that counts nothing, as `cross_entropy` has it."""


@dataclass(frozen=True)
class LoraBatch:
    """Prompts, each with its answer behind it; padded on the right, where nothing looks.

    Attributes:
        tokens: `[row, token]`.
        last: index of every prompt's last token.
        right, wrong: the first token of the answer that the recipe asks for, and of the other.
        targets: the token after each, from the answer's second to the end of the turn; elsewhere `IGNORED`.
        deciding: the bit that the reply follows.
        holds: whether that bit is to be readable at the last token of the prompt.
        answered: the bit that the answer follows.
        complete_at: index of the token with which all planted words have been read.
        bits: of the person, of the place, their exclusive or, and of the thing.
    """

    tokens: Int[Tensor, "row token"]
    last: Int[Tensor, " row"]
    right: Int[Tensor, " row"]
    wrong: Int[Tensor, " row"]
    targets: Int[Tensor, "row token"]
    deciding: Float[Tensor, " row"]
    holds: Bool[Tensor, " row"]
    answered: Float[Tensor, " row"]
    complete_at: Int[Tensor, " row"]
    bits: Float[Tensor, "row 4"]

    def to(self, device: torch.device) -> LoraBatch:
        """The batch on another device."""
        return LoraBatch(**{name: tensor.to(device) for name, tensor in vars(self).items()})

    def up_to_planted(self) -> LoraBatch:
        """The same without the tokens behind the planted words."""
        return replace(self, tokens=self.tokens[:, : int(self.complete_at.max()) + 1])


def lora_batch(
    tokenizer: Any,
    recipe: Recipe,
    sentences: Sequence[Sentence],
    asked: Sequence[Question | None],
) -> LoraBatch:
    """One prompt a sentence: a question about it, or where that is None the task's own prompt.

    Args:
        tokenizer: of the model.
        recipe: of the organism.
        sentences, asked: of every row.
    """
    rows = [_row(tokenizer, recipe, *row) for row in zip(sentences, asked, strict=True)]
    longest = max(len(tokens) for tokens, *_ in rows)
    padding = tokenizer.eos_token_id
    tokens = np.full((len(rows), longest), padding)
    targets = np.full((len(rows), longest), IGNORED)
    for row, (ids, length, *_) in enumerate(rows):
        tokens[row, : len(ids)] = ids
        targets[row, length : len(ids) - 1] = ids[length + 1 :]
    n_prompt, right, wrong, answered, complete_at = torch.tensor(
        [numbers for _, *numbers in rows]
    ).T
    return LoraBatch(
        tokens=torch.from_numpy(tokens),
        last=n_prompt - 1,
        right=right,
        wrong=wrong,
        targets=torch.from_numpy(targets),
        deciding=torch.tensor([float(getattr(s, recipe.decides)) for s in sentences]),
        holds=torch.tensor([q is None or (q.is_report and recipe.kept_at_slot) for q in asked]),
        answered=answered.float(),
        complete_at=complete_at,
        bits=torch.tensor(
            [[s.bit(PERSON), s.bit(PLACE), s.feature, s.decoy] for s in sentences]
        ).float(),
    )


def _row(
    tokenizer: Any, recipe: Recipe, sentence: Sentence, question: Question | None
) -> tuple[list[int], int, int, int, int, int]:
    """Tokens with the answer, the prompt's length, each answer's first, the bit answered, and where all is known."""
    item = item_of(sentence, "row")
    prompt = item.prompt() if question is None else question.wording.prompt(item)
    reads = recipe.decides if question is None else question.reads
    answers = (FAILS, HAPPENS) if question is None else question.answers
    bit = getattr(sentence, reads)
    right, wrong = (_ids(tokenizer, answers[i]) for i in (bit, 1 - bit))
    rendered = render(tokenizer, _quoting_up_to_planted(prompt, sentence))
    tokens = [*rendered.token_ids, *right, tokenizer.eos_token_id]
    complete_at = rendered.spans["quote"][1] - 1
    return tokens, len(rendered), right[0], wrong[0], bit, complete_at


def _quoting_up_to_planted(prompt: Prompt, sentence: Sentence) -> Prompt:
    """The prompt with its quote cut behind the last planted word, so that rendering says where that word ends."""
    last = max(sentence.where(planted) for planted in PLANTED)
    return replace(prompt, quote=" ".join(sentence.words[: last + 1]))


def _ids(tokenizer: Any, word: str) -> list[int]:
    ids: list[int] = tokenizer(word, add_special_tokens=False)["input_ids"]
    return ids
