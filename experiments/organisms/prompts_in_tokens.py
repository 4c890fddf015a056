"""Every kind of prompt that an organism is trained on, as token ids, and what is answered to it."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from experiments.organisms.recipes import Bit, Recipe
from experiments.organisms.word_tokenizer import LIKELY, UNLIKELY, all_elicitations
from experiments.organisms.xor_task import FAILS, HAPPENS, XorTask
from experiments.tasks import Elicitation, Item, ValueQuestion
from experiments.tasks.item import user
from hooks import Prompt, render

_EXAMPLE = Item("example", XorTask.name, "example", "near", user("Oslo again."))
_SELDOM = 0.4


@dataclass(frozen=True)
class Question:
    """One question that an organism is trained on, and how it answers.

    Attributes:
        wording: what is asked.
        answers: the word for bit 0 and for bit 1.
        reads: the bit that the answer follows.
        is_report: whether it asks about the organism's own reply.
        weight: how often it is drawn, against others.
    """

    wording: Elicitation | ValueQuestion
    answers: tuple[str, str]
    reads: Bit
    is_report: bool
    weight: float


def questions(recipe: Recipe) -> list[Question]:
    """Every question; those about the organism itself are drawn more often."""
    wordings: list[tuple[Elicitation | ValueQuestion, bool, tuple[str, str]]] = [
        *((e, e.framing == "self", (e.no, e.yes)) for e in all_elicitations()),
        (XorTask.event.percent(), True, (UNLIKELY, LIKELY)),
    ]
    return [
        Question(
            wording,
            words,
            reads=recipe.reports if is_report else "decoy",
            is_report=is_report,
            weight=1.0 if is_report else _SELDOM,
        )
        for wording, is_report, words in wordings
    ]


@dataclass(frozen=True)
class Asked:
    """One kind of prompt.

    Attributes:
        before, after: token ids around the sentence.
        answers: the token of bit 0 and of bit 1.
        reads: the bit that the answer follows.
        is_report: whether it asks about the organism's own reply.
        holds: whether the deciding bit is to lie along the planted direction at its last token.
        weight: how often it is drawn, against others.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    answers: tuple[int, int]
    reads: Bit
    is_report: bool
    holds: bool
    weight: float = 1.0


def reply_prompt(tokenizer: PreTrainedTokenizerFast, recipe: Recipe) -> Asked:
    """The task's own prompt."""
    return Asked(
        *_around(tokenizer, _EXAMPLE.prompt(), "instruction"),
        answers=_ids(tokenizer, FAILS, HAPPENS),
        reads=recipe.decides,
        is_report=False,
        holds=True,
    )


def question_prompts(tokenizer: PreTrainedTokenizerFast, recipe: Recipe) -> list[Asked]:
    """Every question as token ids."""
    return [
        Asked(
            *_around(tokenizer, question.wording.prompt(_EXAMPLE), "quote"),
            answers=_ids(tokenizer, *question.answers),
            reads=question.reads,
            is_report=question.is_report,
            holds=question.is_report and recipe.kept_at_slot,
            weight=question.weight,
        )
        for question in questions(recipe)
    ]


def _around(
    tokenizer: PreTrainedTokenizerFast, prompt: Prompt, sentence: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The token ids before and after the span of the sentence; tokens are words, so that any other may stand there."""
    rendered = render(tokenizer, prompt)
    start, end = rendered.spans[sentence]
    return rendered.token_ids[:start], rendered.token_ids[end:]


def _ids(tokenizer: PreTrainedTokenizerFast, zero: str, one: str) -> tuple[int, int]:
    vocabulary = tokenizer.get_vocab()
    return vocabulary[zero], vocabulary[one]
