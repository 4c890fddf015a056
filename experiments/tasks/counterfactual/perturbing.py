"""Ways to change a question (`data/perturbations.yaml`), each a rule that gives the changed conversation.

A perturbation never says which option is right: hints and authorities name an option by its place. All of them are
pure and deterministic, and all leave the options in the prompt, so that the answer can be read.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from experiments.tasks.counterfactual.pool import INSTRUCTION, Asked, Question
from experiments.tasks.item import user
from hooks import Message

_POOL = Path(__file__).with_name("data") / "perturbations.yaml"
_TYPO_EVERY = 3
"""One word in so many has two letters exchanged."""


@dataclass(frozen=True)
class Perturbation:
    """One way to change a question: `name` and `kind`, and the rule as it stands in the pool.

    Attributes:
        name: says what is done.
        kind: what recurs over perturbations (hint, authority, format, ...).
        template: the changed user message with `{base}`, `{question}`, `{options}`, `{or}`, `{first}`, `{last}`.
        system: a system message to put before it.
        history: earlier turns, the user's and the assistant's in turn, with the same fields.
        rule: the name of a function in `RULES`, instead of all these.
    """

    name: str
    kind: str
    template: str = "{base}"
    system: str = ""
    history: tuple[str, ...] = ()
    rule: str = ""

    def apply(self, question: Question) -> Asked:
        """The changed prompt of a question."""
        if self.rule:
            return RULES[self.rule](question)
        fields = _fields(question)
        turns = [
            _message(("user", "assistant")[i % 2], turn.format(**fields))
            for i, turn in enumerate(self.history)
        ]
        system = [_message("system", self.system)] if self.system else []
        last = user(self.template.format(**fields))
        return Asked((*system, *turns, *last), question.options)


@cache
def perturbations() -> Mapping[str, Perturbation]:
    """The pool, by name, in the order of the file."""
    rows = yaml.safe_load(_POOL.read_text(encoding="utf-8"))
    pool = [Perturbation(**{**row, "history": tuple(row.get("history", ()))}) for row in rows]
    return {perturbation.name: perturbation for perturbation in pool}


def with_layout(question: Question, options: tuple[str, ...], marks: tuple[str, ...]) -> Asked:
    """The question with its options one a line, each behind its mark and a period."""
    lines = [f"{mark}. {option}" for mark, option in zip(marks, options, strict=True)]
    text = "\n".join((question.stem, *lines, INSTRUCTION))
    return Asked(user(text), options, marks)


def _lettered(question: Question) -> Asked:
    return with_layout(question, question.options, tuple("ABCD"[: len(question.options)]))


def _numbered(question: Question) -> Asked:
    return with_layout(question, question.options, tuple("1234"[: len(question.options)]))


def _bulleted(question: Question) -> Asked:
    lines = [f"- {option}" for option in question.options]
    return Asked(user("\n".join((question.stem, *lines, INSTRUCTION))), question.options)


def _reversed_options(question: Question) -> Asked:
    options = question.options[::-1]
    return Asked(user(question.text.replace(_row(question.options), _row(options))), options)


def _typos(question: Question) -> Asked:
    """Exchange two inner letters in the longest third of the stem's words, at seeded places."""
    generator = random.Random(question.stem)
    words = question.stem.split(" ")
    longest = sorted(range(len(words)), key=lambda i: -len(words[i]))
    for i in longest[: math.ceil(len(words) / _TYPO_EVERY)]:
        words[i] = _exchanged(words[i], generator)
    return Asked(user(question.text.replace(question.stem, " ".join(words))), question.options)


def _exchanged(word: str, generator: random.Random) -> str:
    at = generator.randrange(1, max(2, len(word) - 2))
    return word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


def _run_together(question: Question) -> Asked:
    stem = question.stem.replace(" ", "")
    return Asked(user(question.text.replace(question.stem, stem)), question.options)


def _capitals(question: Question) -> Asked:
    return Asked(user(question.text.upper()), question.options)


RULES: Mapping[str, Callable[[Question], Asked]] = {
    "lettered": _lettered,
    "numbered": _numbered,
    "bulleted": _bulleted,
    "reversed_options": _reversed_options,
    "typos": _typos,
    "run_together": _run_together,
    "capitals": _capitals,
}


def _fields(question: Question) -> dict[str, str]:
    *others, last = question.options
    return {
        "base": question.text,
        "question": question.stem,
        "options": _row(question.options),
        "or": f"{_row(tuple(others))} or {last}",
        "first": question.options[0],
        "last": last,
    }


def _row(options: tuple[str, ...]) -> str:
    return ", ".join(options)


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
