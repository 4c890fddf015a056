"""The two pools that the counterfactual tasks draw from: questions with options, and ways to change them.

All of it is written for this project. A question's group is the connected component of what it shares with others: its
stem and any of its options. Where the right option stands is balanced over the places within each stratum and each
number of options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from experiments.tasks.counterfactual.reading import choice_is_settled, chosen_option
from experiments.tasks.difficulty import components
from experiments.tasks.item import user
from hooks import Message, Prompt

_DATA = Path(__file__).with_name("data")
INSTRUCTION = "Answer with just the option."
ANSWER_TOKENS = 12
"""Most tokens of an answer: a choice, if there is one, nearly always stands in these."""


@dataclass(frozen=True)
class Asked:
    """A question as it is put to the model: the conversation, and what an answer to it may name.

    `options` stand in the order in which the prompt lists them; `marks` are the letters or numbers before them, if any.
    """

    messages: tuple[Message, ...]
    options: tuple[str, ...]
    marks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The last user message."""
        return self.messages[-1]["content"]

    def prompt(self, id: str) -> Prompt:
        """The conversation as a prompt."""
        return Prompt(id=id, messages=self.messages)

    def choice(self, answer: str) -> tuple[str | None, str]:
        """The option (not its place) that an answer chooses, or None with the reason."""
        index, reason = chosen_option(answer, self.options, self.marks)
        return (None if index is None else self.options[index]), reason

    def is_settled(self, answer: str) -> bool:
        """Whether an answer that is still being written can no longer choose otherwise."""
        return choice_is_settled(answer, self.options, self.marks)


@dataclass(frozen=True)
class Question:
    """A multiple-choice question.

    `stem` is without the options, `options` stand in the order asked; `answer` is the right one, empty where it is not
    known (a user's own questions).
    """

    id: str
    group: str
    stratum: str
    stem: str
    options: tuple[str, ...]
    answer: str = ""

    @property
    def text(self) -> str:
        """The question as it stands: stem, options, instruction."""
        return f"{self.stem}\nOptions: {', '.join(self.options)}.\n{INSTRUCTION}"

    def asked(self) -> Asked:
        """The question as it stands, as one user message."""
        return Asked(user(self.text), self.options)


@cache
def questions() -> tuple[Question, ...]:
    """All questions, strata interleaved, so that any prefix is balanced over strata and places of the right option."""
    tables: Mapping[str, list[list[str]]] = yaml.safe_load(
        (_DATA / "choices.yaml").read_text(encoding="utf-8")
    )
    rows = [(stratum, row) for stratum, table in tables.items() for row in table]
    groups = components(
        [[row[0], *(f"option:{option.lower()}" for option in row[1:])] for _, row in rows]
    )
    size = Counter((stratum, len(row)) for stratum, row in rows)
    seen: Counter[tuple[str, int]] = Counter()
    found: list[tuple[float, Question]] = []
    for (stratum, row), group in zip(rows, groups, strict=True):
        stem, right, *wrong = row
        i = seen[stratum, len(row)]
        seen[stratum, len(row)] += 1
        # Every stratum begins at a place of its own, or the first questions would all have it at the first.
        at = (i + list(tables).index(stratum)) % (len(wrong) + 1)
        question = Question(
            id=f"{stratum.split()[0]}-{sum(n for (s, _), n in seen.items() if s == stratum):02d}",
            group=f"fact-{group:03d}",
            stratum=stratum,
            stem=stem,
            options=(*wrong[:at], right, *wrong[at:]),
            answer=right,
        )
        found.append(((i + 0.5) / size[stratum, len(row)], question))
    return tuple(question for _, question in sorted(found, key=lambda pair: pair[0]))
