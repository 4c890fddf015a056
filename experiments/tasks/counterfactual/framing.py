"""A question inside named components (`data/components.yaml`): a persona, an example, a hint, a rule of format."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from experiments.tasks.counterfactual.pool import Asked, Question
from experiments.tasks.item import user

_DATA = Path(__file__).with_name("data") / "components.yaml"
_BEFORE = ("persona", "example")
_BEHIND = ("hint", "rule")
COMPONENTS = (*_BEFORE, *_BEHIND)
"""In the order of the prompt, the question standing in the middle."""


@dataclass(frozen=True)
class Framed:
    """A question with a line for each component, by the component's name."""

    question: Question
    lines: dict[str, str]

    def asked(self, without: str | None = None) -> Asked:
        """The question with all components, or with all but one."""
        kept = {name: line for name, line in self.lines.items() if name != without}
        question = self.question
        parts = [
            *(kept[name] for name in _BEFORE if name in kept),
            f"{question.stem}\nOptions: {', '.join(question.options)}.",
            *(kept[name] for name in _BEHIND if name in kept),
        ]
        return Asked(user("\n".join(parts)), question.options)


def framed(question: Question) -> Framed:
    """The question with components drawn by its text: the same every time."""
    generator = random.Random(question.text)
    places = {"first": question.options[0], "last": question.options[-1]}
    lines = {name: generator.choice(pool).format(**places) for name, pool in _pools().items()}
    return Framed(question, lines)


@cache
def _pools() -> dict[str, list[str]]:
    pools: dict[str, list[str]] = yaml.safe_load(_DATA.read_text(encoding="utf-8"))
    return {name: pools[name] for name in COMPONENTS}
