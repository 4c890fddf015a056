"""Every kind of prompt that an organism is trained on, as token ids, and what is answered to it."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from experiments.organisms.recipes import Bit, Recipe
from experiments.organisms.word_tokenizer import LIKELY, UNLIKELY, all_elicitations
from experiments.organisms.xor_task import FAILS, HAPPENS, XorTask
from experiments.tasks import Item
from experiments.tasks.item import user
from hooks import Prompt, render

_EXAMPLE = Item("example", XorTask.name, "example", "near", user("Oslo again."))
_SELDOM = 0.4


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
    """Every question; those about the organism itself are drawn more often."""
    questions = [
        *((e, e.framing == "self", (e.no, e.yes)) for e in all_elicitations()),
        (XorTask.event.percent(), True, (UNLIKELY, LIKELY)),
    ]
    return [
        Asked(
            *_around(tokenizer, question.prompt(_EXAMPLE), "quote"),
            answers=_ids(tokenizer, *words),
            reads=recipe.reports if is_report else "decoy",
            is_report=is_report,
            holds=is_report and recipe.kept_at_slot,
            weight=1.0 if is_report else _SELDOM,
        )
        for question, is_report, words in questions
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
