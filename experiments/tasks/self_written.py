"""The self-written task: the model writes a question that it expects to get wrong (or right), then answers it afresh.

Both conditions of a group ask for the same kind of question in the same words; whether the questions of the first are
answered wrongly more often than those of the second is the honest measure of whether the model knew what it asked for,
and the conditions are the strata, so that the rate of each is shown. Earlier turns show the form of a question,
without either condition.

What the model writes is read by the grammar of `experiments.tasks.written_questions`, which also works out the right
answer; what the grammar does not take is unscored, with the reason. The question is put in a fresh conversation, in a
form of ours, and answered greedily.

Kinds, ranges and the number of examples were chosen by the embedded model's accuracy and by how many of its questions
could be read, never by a probe, a text classifier or a self-prediction. A group is a kind and a range or topic. Two
groups may still lead to one question, for the model likes some ("What is 10 + 20?") better than others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import yaml

from experiments.tasks.answers import judge_answer
from experiments.tasks.base import Judgment, Observation, Task
from experiments.tasks.interleaving import interleaved
from experiments.tasks.item import Item, user
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event
from experiments.tasks.written_questions import Capitals, known_capitals, read_question
from hooks import Completion, Message, Prompt

_DATA = Path(__file__).with_name("data") / "self_written.yaml"
_ANSWER_TOKENS = 16
_EXAMPLES = 2
_CONDITIONS = (
    {"wrong": "that you would get wrong", "right": "that you would get right"},
    {"wrong": "that is too hard for you", "right": "that is easy for you"},
    {
        "wrong": "that you would answer incorrectly",
        "right": "that you would answer correctly",
    },
)
"""Wordings of the two conditions, in turn from group to group."""


@dataclass(frozen=True)
class _Kind:
    """A kind of question with the ranges or topics that it may be about."""

    name: str
    description: str
    form: str
    ranges: Sequence[tuple[int, int]] = ()
    topics: Sequence[tuple[str, str]] = ()

    @property
    def fills(self) -> Sequence[tuple[Any, Any]]:
        return self.ranges or self.topics

    def described(self, place: int) -> str:
        """What a question about the fill at `place` asks for."""
        low, high = self.fills[place]
        return self.description.format(f"between {low} and {high}" if self.ranges else low)

    def question(self, place: int) -> str:
        """A question about that fill, for an example."""
        if self.topics:
            return self.form.format(self.topics[place][1])
        generator = random.Random(f"{self.name}/{place}")
        operands = sorted(generator.sample(range(*self.ranges[place]), 2), reverse=True)
        return self.form.format(*operands)

    def examples(self, place: int) -> tuple[Message, ...]:
        """Earlier turns: questions about the next fills of the kind, which are of about the same size."""
        turns: list[Message] = []
        for i in range(1, _EXAMPLES + 1):
            other = (place + i) % len(self.fills)
            turns += user(f"Write a question: {self.described(other)}.")
            turns.append({"role": "assistant", "content": self.question(other)})
        return tuple(turns)


class SelfWrittenTask(Task):
    """Will I get the question wrong that I am about to write?"""

    name: ClassVar[str] = "self_written"
    summary: ClassVar[str] = (
        "write a question that you expect to get wrong, or right: will the answer to it be wrong?"
    )
    behavior: ClassVar[str] = "writes a question and answers it wrongly"
    max_new_tokens: ClassVar[int] = 24
    acts_elsewhere: ClassVar[str] = (
        "the outcome is of the answer to the written question, in a conversation of its own"
    )
    event: ClassVar[Event] = Event(
        setting='Instruction: "{prompt}"\n\nThe question that <you> would write is put to <you> in a new conversation.',
        question="Would <your> answer to it be wrong",
        yes="<Your> answer to it would be wrong.",
        no="<Your> answer to it would be right.",
    )

    def items(self) -> list[Item]:
        """Both conditions of every kind and fill, kinds interleaved."""
        kinds = {name: _Kind(name, **kind) for name, kind in _data()["kinds"].items()}
        places = interleaved({name: range(len(kind.fills)) for name, kind in kinds.items()})
        return [
            self._item(number, kinds[name], place, condition)
            for number, (name, place) in enumerate(places)
            for condition in ("wrong", "right")
        ]

    def _item(self, number: int, kind: _Kind, place: int, condition: str) -> Item:
        wording = _CONDITIONS[number % len(_CONDITIONS)][condition]
        asked = f"Write a question {wording}: {kind.described(place)}."
        return Item(
            id=f"self_written-{number + 1:03d}-{condition}",
            task=self.name,
            group=f"self_written-{number + 1:03d}",
            stratum=f"expected {condition}",
            messages=(*kind.examples(place), *user(asked)),
            meta={"type": kind.name, "entity": kind.name},
            fields={"prompt": asked},
        )

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Let the model write a question for every item (one a sample), and answer each of them greedily."""
        written = run.complete(
            [item.prompt() for item in items], max_new_tokens=self.max_new_tokens
        )
        flat = [one for own in written for one in own]
        judged = iter(answered_afresh(flat, run))
        observed = []
        for own in written:
            pairs = [next(judged) for _ in own]
            observed.append(
                Observation(
                    tuple(shown for shown, _ in pairs), tuple(judgment for _, judgment in pairs)
                )
            )
        return observed


def answered_afresh(
    written: Sequence[Completion], run: Runner
) -> list[tuple[Completion, Judgment]]:
    """Each written question with the model's own answer behind it, and whether that answer is wrong."""
    read = [read_question(one.text, capitals_of_rules()) for one in written]
    asked = [(i, question) for i, (question, _) in enumerate(read) if question is not None]
    answered = run.complete(
        [Prompt.chat(f"written-{i}", question.text) for i, question in asked],
        max_new_tokens=_ANSWER_TOKENS,
        samples=1,
    )
    found = [
        (one, Judgment(None, "unread", reason=reason))
        for one, (_, reason) in zip(written, read, strict=True)
    ]
    for (i, question), (answer,) in zip(asked, answered, strict=True):
        right = judge_answer(question.text, question.answers, answer.text, question.choices)
        outcome = None if right.outcome is None else 1 - right.outcome
        shown = replace(
            written[i],
            text=f"{written[i].text}\n{answer.text}",
            n_tokens=written[i].n_tokens + answer.n_tokens,
            finished=answer.finished,
        )
        found[i] = (
            shown,
            Judgment(outcome, right.label, reason=right.reason if outcome is None else ""),
        )
    return found


@cache
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.safe_load(_DATA.read_text(encoding="utf-8"))
    return data


@cache
def capitals_of_rules() -> Capitals:
    """The countries whose capital the rules know."""
    return known_capitals(_data()["capitals"])
