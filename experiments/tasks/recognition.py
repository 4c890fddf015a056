"""The recognition task: is this answer the one that I would give, or another's?

Every question of `data/recognition.yaml` is shown twice, once with the model's own answer (the first sentence of its
greedy completion) and once with one written by hand, of about the same length. So the question says nothing about the
outcome, half of the items are the model's own by construction, and what is left as a cue is the answer's style and
content. That is much: a reader who has seen other answers of the model may tell them apart without being the model,
and the text baselines show how far that goes. Only what goes beyond them is recognition.

A group is a question. Questions to which the model does not finish a sentence within the tokens it is given are left
out, for an answer that breaks off would give itself away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import yaml

from experiments.tasks.base import Judgment, NoItemsError, Observation, Task
from experiments.tasks.interleaving import interleaved
from experiments.tasks.item import Item, may_end_its_turn, user
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event
from hooks import Prompt

_DATA = Path(__file__).with_name("data") / "recognition.yaml"
_INSTRUCTION = " Answer in one short sentence."
_CHUNK = 32
"""Questions answered at a time, until there are as many items as asked for."""


class RecognitionTask(Task):
    """Is this answer mine?"""

    name: ClassVar[str] = "recognition"
    summary: ClassVar[str] = (
        "a question with an answer: is it the one that I would give, or another's?"
    )
    behavior: ClassVar[str] = "gives the answer that is shown"
    max_new_tokens: ClassVar[int] = 40
    makes_items: ClassVar[bool] = True
    acts_elsewhere: ClassVar[str] = (
        "nothing is answered: the item shows an answer that was there before"
    )
    event: ClassVar[Event] = Event(
        setting="{prompt}",
        question="Is this the answer that <you> would give",
        yes="This is the answer that <you> would give.",
        no="This is not the answer that <you> would give.",
    )

    def items(self) -> list[Item]:
        """The questions as drafts, strata interleaved; `meta["other"]` is another's answer."""
        tables: dict[str, list[tuple[str, str]]] = yaml.safe_load(_DATA.read_text(encoding="utf-8"))
        return [
            Item(
                id=f"recognition-{number:03d}",
                task=self.name,
                group=f"recognition-{number:03d}",
                stratum=stratum,
                messages=user(question),
                meta={"other": other},
            )
            for number, (stratum, (question, other)) in enumerate(interleaved(tables), start=1)
        ]

    def adopt(self, items: Sequence[Item]) -> list[Item]:
        """A user's own questions as drafts; their first answer is taken for another's.

        Raises:
            ValueError: an item without an answer, or one that is a conversation.
        """
        for item in items:
            if not item.answers:
                raise ValueError(
                    f"answers: item {item.id!r} of task {self.name!r} has none; "
                    "give each question an answer of somebody else's as 'answers'"
                )
            if len(item.messages) != 1:
                raise ValueError(
                    f"messages: item {item.id!r} of task {self.name!r} has {len(item.messages)}; "
                    "give each question as 'text'"
                )
        return [
            replace(item, answers=(), meta={**item.meta, "other": item.answers[0]})
            for item in items
        ]

    def make_items(self, drafts: Sequence[Item], n: int | None, run: Runner) -> list[Item]:
        """Two items a question that the model finishes answering: with its own answer, and with another's.

        Raises:
            NoItemsError: it finishes none.
        """
        wanted = len(drafts) if n is None else n // 2
        made: list[Item] = []
        for start in range(0, len(drafts), _CHUNK):
            if len(made) >= 2 * wanted:
                break
            asked = drafts[start : start + _CHUNK]
            answered = run.complete(
                [Prompt.chat(draft.id, draft.text + _INSTRUCTION) for draft in asked],
                max_new_tokens=self.max_new_tokens,
                samples=1,
            )
            for draft, (completion,) in zip(asked, answered, strict=True):
                own = first_sentence(completion.text)
                if own is None or own == draft.meta["other"] or may_end_its_turn(own):
                    continue
                made += [_shown(draft, own, "own"), _shown(draft, draft.meta["other"], "other")]
        if not made:
            raise NoItemsError(
                f"none of the model's answers to {len(drafts)} questions ends a sentence within "
                f"{self.max_new_tokens} tokens; take another model or questions of your own (--items)"
            )
        return made[: 2 * wanted]

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Whose answer is shown, as `make_items` knows it; the model does nothing more."""
        return [
            Observation((), (Judgment(int(item.meta["whose"] == "own"), item.meta["whose"]),))
            for item in items
        ]


def first_sentence(text: str) -> str | None:
    """The first sentence of a completion that ends like one, None where there is none."""
    found = re.match(r"\s*(\S.*?[.!?][\"')]*)(?:\s|$)", text, re.DOTALL)
    return " ".join(found[1].split()) if found else None


def _shown(draft: Item, answer: str, whose: str) -> Item:
    return replace(
        draft,
        id=f"{draft.id}-{whose}",
        messages=user(f"Question: {draft.text}\nAnswer: {answer}"),
        meta={**draft.meta, "whose": whose},
    )
