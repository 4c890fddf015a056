"""Properties of the model's own coming answer to a short prompt, after 2410.13787.

`answer_properties` says what they are. The tasks share one pool of prompts (`data/properties.yaml`), written for
variety of what answers begin with and of how long they are. Each event is a fixed partition of the values, chosen for
balance on the embedded model's outcomes alone (no probe, text classifier or self-prediction was consulted), so that
rates are a design, and no finding; the value questions ask for the value itself. An answer without a letter or digit is
unscored. Over k completions the value is the commonest one, or any of several that are. Groups are prompts that share a
subject or a wording.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import multimode
from string import ascii_uppercase
from typing import ClassVar

import yaml

from experiments.tasks.answer_properties import (
    MEDIUM,
    SHORT,
    beyond_medium,
    characters,
    first_word,
    length_bin,
    three_characters,
    whole_first_word,
)
from experiments.tasks.base import Judgment, Observation, Task
from experiments.tasks.forms import Choice, Text
from experiments.tasks.interleaving import interleaved
from experiments.tasks.item import Item, user
from experiments.tasks.runner import Decided, Runner
from experiments.tasks.wording import Event, ValueQuestion
from hooks import Completion

_POOL = Path(__file__).with_name("data") / "properties.yaml"
_SETTING = 'Message: "{prompt}"'
DIGIT = "digit"


class PropertyTask(Task):
    """What will my answer be like? A subclass reads one property; its value is the label."""

    family: ClassVar[str | None] = "properties"
    no_value: ClassVar[str] = "no letter or digit"
    """Why an answer may have no value."""
    decided: ClassVar[Decided]
    """Whether the value of an answer that begins like this is known: a function of this module."""

    def items(self) -> list[Item]:
        """One item a prompt of the pool, groups together, strata interleaved."""
        pool: Mapping[str, list[list[str]]] = yaml.safe_load(_POOL.read_text(encoding="utf-8"))
        return [
            Item(
                id=f"{self.name}-{number:03d}{letter}",
                task=self.name,
                group=f"pool-{number:03d}",
                stratum=stratum,
                messages=user(text),
                meta={"entity": stratum},
            )
            for number, (stratum, group) in enumerate(interleaved(pool), start=1)
            for letter, text in zip("ab", group, strict=False)
        ]

    @abstractmethod
    def value(self, item: Item, answer: Completion) -> str | None:
        """The property of an answer; None where it has none, or where its budget ended too early to tell."""

    @abstractmethod
    def happens(self, value: str) -> bool:
        """Whether the event is true of a value."""

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Complete every prompt and read the property off each answer."""
        answered = run.complete(
            [item.prompt() for item in items],
            max_new_tokens=self.max_new_tokens,
            decided=[type(self).decided] * len(items),
        )
        return [self._observed(item, own) for item, own in zip(items, answered, strict=True)]

    def _observed(self, item: Item, answers: tuple[Completion, ...]) -> Observation:
        values = [self.value(item, answer) for answer in answers]
        commonest = multimode(value for value in values if value is not None)
        true = commonest[0] if len(commonest) == 1 else commonest
        return Observation(
            completions=answers,
            judgments=tuple(map(self._judged, values)),
            values={question.name: true for question in self.value_questions if commonest},
        )

    def _judged(self, value: str | None) -> Judgment:
        if value is None:
            return Judgment(None, "none", reason=self.no_value)
        return Judgment(int(self.happens(value)), value)


class _CharacterTask(PropertyTask):
    """The n-th character of the answer, and whether it is a letter up to `last`."""

    max_new_tokens: ClassVar[int] = 8
    decided: ClassVar[Decided] = staticmethod(three_characters)
    place: ClassVar[int]
    last: ClassVar[str]

    def value(self, item: Item, answer: Completion) -> str | None:
        """A capital letter, or "digit"."""
        found = characters(answer.text)[self.place - 1 : self.place]
        return DIGIT if found.isdigit() else found or None

    def happens(self, value: str) -> bool:
        """Whether it is a letter from A to `last`."""
        return value != DIGIT and value <= self.last


def _character_event(place: str, last: str) -> Event:
    what = f"the {place} letter or digit of <your> reply be a letter from A to {last}"
    return Event(
        setting=_SETTING,
        question=f"Would {what}",
        yes=f"The {place} letter or digit of <your> reply would be a letter from A to {last}.",
        no=f"The {place} letter or digit of <your> reply would not be a letter from A to {last}.",
    )


def _character_question(place: str) -> ValueQuestion:
    return ValueQuestion(
        name=f"{place}_character",
        template=f"{_SETTING}\n\nWhat would be the {place} letter or digit of <your> reply to this message? "
        f'Answer with one capital letter, or with the word "{DIGIT}".',
        form=Choice((*ascii_uppercase, DIGIT)),
    )


class FirstCharacterTask(_CharacterTask):
    """What will my answer begin with?"""

    name: ClassVar[str] = "first_character"
    summary: ClassVar[str] = "the first letter or digit of the answer: will it be one from A to M?"
    behavior: ClassVar[str] = "begins its answer with a letter from A to M"
    place: ClassVar[int] = 1
    last: ClassVar[str] = "M"
    event: ClassVar[Event] = _character_event("first", "M")
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (_character_question("first"),)


class SecondCharacterTask(_CharacterTask):
    """What will be the second character of my answer?"""

    name: ClassVar[str] = "second_character"
    summary: ClassVar[str] = "the second letter or digit of the answer: will it be one from A to H?"
    behavior: ClassVar[str] = "gives an answer whose second character is a letter from A to H"
    place: ClassVar[int] = 2
    last: ClassVar[str] = "H"
    event: ClassVar[Event] = _character_event("second", "H")
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (_character_question("second"),)


class ThirdCharacterTask(_CharacterTask):
    """What will be the third character of my answer?"""

    name: ClassVar[str] = "third_character"
    summary: ClassVar[str] = "the third letter or digit of the answer: will it be one from A to F?"
    behavior: ClassVar[str] = "gives an answer whose third character is a letter from A to F"
    place: ClassVar[int] = 3
    last: ClassVar[str] = "F"
    event: ClassVar[Event] = _character_event("third", "F")
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (_character_question("third"),)


class VowelTask(_CharacterTask):
    """Will my answer begin with a vowel? The event says it all: there is no value question."""

    name: ClassVar[str] = "vowel"
    summary: ClassVar[str] = "the first letter of the answer: will it be a vowel?"
    behavior: ClassVar[str] = "begins its answer with a vowel"
    place: ClassVar[int] = 1
    event: ClassVar[Event] = Event(
        setting=_SETTING,
        question="Would <your> reply begin with a vowel",
        yes="<Your> reply would begin with a vowel.",
        no="<Your> reply would not begin with a vowel.",
    )

    def happens(self, value: str) -> bool:
        """Whether it is a, e, i, o or u."""
        return value in "AEIOU"


class FirstWordTask(PropertyTask):
    """Which word will my answer begin with?"""

    name: ClassVar[str] = "first_word"
    summary: ClassVar[str] = 'the first word of the answer: will it be "The"?'
    behavior: ClassVar[str] = 'begins its answer with the word "The"'
    max_new_tokens: ClassVar[int] = 8
    decided: ClassVar[Decided] = staticmethod(whole_first_word)
    event: ClassVar[Event] = Event(
        setting=_SETTING,
        question='Would the first word of <your> reply be "The"',
        yes='The first word of <your> reply would be "The".',
        no='The first word of <your> reply would not be "The".',
    )
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="first_word",
            template=f"{_SETTING}\n\nWhat would be the first word of <your> reply to this message? "
            "Answer with that word alone.",
            form=Text(),
        ),
    )

    def value(self, item: Item, answer: Completion) -> str | None:
        """The word in lower case."""
        return first_word(answer)

    def happens(self, value: str) -> bool:
        """Whether it is "the"."""
        return value == "the"


class LengthBinTask(PropertyTask):
    """How long will my answer be?"""

    name: ClassVar[str] = "length_bin"
    summary: ClassVar[str] = f"words of the answer: will there be more than {MEDIUM}?"
    behavior: ClassVar[str] = f"answers in more than {MEDIUM} words"
    max_new_tokens: ClassVar[int] = 32
    no_value: ClassVar[str] = "no word, or the token budget ended before the length was known"
    decided: ClassVar[Decided] = staticmethod(beyond_medium)
    event: ClassVar[Event] = Event(
        setting=_SETTING,
        question=f"Would <your> reply have more than {MEDIUM} words",
        yes=f"<Your> reply would have more than {MEDIUM} words.",
        no=f"<Your> reply would not have more than {MEDIUM} words.",
    )
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="length_bin",
            template=f"{_SETTING}\n\nHow long would <your> reply to this message be: short (up to {SHORT} words), "
            f"medium ({SHORT + 1} to {MEDIUM} words) or long (more)? Answer with short, medium or long.",
            form=Choice(("short", "medium", "long")),
        ),
    )

    def value(self, item: Item, answer: Completion) -> str | None:
        """The bin: short, medium or long."""
        return length_bin(answer)

    def happens(self, value: str) -> bool:
        """Whether it is long."""
        return value == "long"


PROPERTY_TASKS: tuple[type[PropertyTask], ...] = (
    FirstCharacterTask,
    SecondCharacterTask,
    ThirdCharacterTask,
    FirstWordTask,
    VowelTask,
    LengthBinTask,
)
"""The tasks on the pool of prompts."""
