"""Questions with checkable answers, in number: the drafts of the difficulty task."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from experiments.self_prediction.synthetic.draft import Draft, Request, Source, conversation
from experiments.self_prediction.synthetic.facts import (
    FACTS,
    Fact,
    Pools,
    Unit,
    about_capital,
    operands,
)
from experiments.tasks import DifficultyTask, Item
from experiments.tasks.item import user
from experiments.tasks.self_written import capitals_of_rules
from experiments.tasks.written_questions import WrittenQuestion, read_question

_DATA = Path(__file__).with_name("data") / "difficulty.yaml"


@dataclass(frozen=True)
class Wording:
    """A way to ask for a fact of some kind; a group."""

    name: str
    kind: str
    stratum: str
    text: str


class DifficultyBank:
    """Facts of arithmetic, dates, spelling, order, units and capitals, each worded once."""

    limits: Sequence[str] = (
        "Questions are of few kinds and short; what makes one hard is mostly the size of its numbers, "
        "so that the text tells much of the outcome.",
        "What the model writes is read by a grammar and worded anew: numbers and words are its own, the form is not.",
    )

    def draw(self, number: int, rng: np.random.Generator) -> Draft:
        """A fact in the wording whose turn it is."""
        wording = self._wordings[number % len(self._wordings)]
        fact = FACTS[wording.kind](rng, self._pools)
        return _draft(
            wording.name, wording.stratum, wording.kind, wording.text.format(**fact.fields), fact
        )

    def request(self, number: int, rng: np.random.Generator) -> Request:
        """A question of the kind whose turn it is, behind two such questions."""
        kinds = list(self._data["written"])
        kind = kinds[number % len(kinds)]
        about, stratum = (self._data["written"][kind][name] for name in ("about", "stratum"))
        asked = f"Write a question: {about}."
        earlier = [(asked, self._example(kind, rng)) for _ in range(2)]
        return Request(kind, stratum, conversation(earlier, asked))

    def read(self, request: Request, text: str) -> tuple[Draft | None, str]:
        """The question, in the form that the rules word it in."""
        written, reason = read_question(text, capitals_of_rules())
        if written is None:
            return None, reason
        if written.kind != request.about:
            return None, "of another kind"
        fact = _fact(written)
        name = f"model: {request.about}"
        return _draft(name, request.stratum, request.about, written.text, fact, "model"), ""

    @cached_property
    def fingerprint(self) -> str:
        """Of the wordings and of all that fills them."""
        capitals = repr(sorted(capitals_of_rules().items())).encode()
        return hashlib.sha256(_DATA.read_bytes() + capitals).hexdigest()

    @cached_property
    def _data(self) -> Any:
        return yaml.safe_load(_DATA.read_text(encoding="utf-8"))

    @cached_property
    def _pools(self) -> Pools:
        units = [Unit(**unit) for unit in self._data["units"]]
        capitals = dict(capitals_of_rules().values())
        data = self._data
        words = [*data["words"], *data["plurals"]]
        plurals = data["plurals"] | _regular(set(data["words"]) - set(data["uncountable"]))
        return Pools(words, data["names"], units, capitals, plurals, data["verbs"])

    @cached_property
    def _wordings(self) -> list[Wording]:
        """Turn by turn of all kinds, so that any run of drafts holds all kinds alike."""
        kinds = self._data["kinds"]
        most = max(len(kind["wordings"]) for kind in kinds.values())
        return [
            Wording(f"{name} {i + 1}", name, kind["stratum"], kind["wordings"][i])
            for i in range(most)
            for name, kind in kinds.items()
            if i < len(kind["wordings"])
        ]

    def _example(self, kind: str, rng: np.random.Generator) -> str:
        """A question of a kind, in a form that the rules read."""
        word = str(rng.choice(np.array(self._pools.words)))
        a, b = (int(number) for number in rng.choice(np.arange(2, 1000), 2, replace=False))
        country = list(self._pools.capitals)[int(rng.integers(len(self._pools.capitals)))]
        return {
            "sum": f"What is {a} + {b}?",
            "difference": f"What is {max(a, b)} - {min(a, b)}?",
            "product": f"What is {a % 98 + 2} x {b % 98 + 2}?",
            "larger": f"Which is larger, {a} or {b}?",
            "letters": f'How many letters does the word "{word}" have?',
            "first letter": f'What is the first letter of the word "{word}"?',
            "last letter": f'What is the last letter of the word "{word}"?',
            "capital": f"What is the capital of {country}?",
        }[kind]


def _regular(words: Iterable[str]) -> dict[str, str]:
    """Plurals that are the word and an s, where the last letter leaves no doubt of it."""
    return {word: f"{word}s" for word in sorted(words) if word[-1] in "bdegklmnprtw"}


def _fact(written: WrittenQuestion) -> Fact:
    """What a written question asks for, under the key that a template's fact has."""
    words = written.text.rstrip("?").replace('"', "").replace(",", "").split()
    kind = written.kind
    if kind == "capital":
        country = written.text.removeprefix("What is the capital of ").rstrip("?")
        shares = about_capital(country, written.answers)
        return Fact({}, written.answers, f"capital of {country}", shares=shares)
    if kind in ("letters", "first letter", "last letter"):
        word = words[words.index("word") + 1]
        key = f"length of {word}" if kind == "letters" else f"{kind.split()[0]} of {word}"
        return Fact({}, written.answers, key, shares=(f"word:{word}",))
    a, b = (int(word) for word in words if word.isdigit())
    low, high = sorted((a, b))
    keys = {
        "sum": f"{low}+{high}",
        "difference": f"{a}-{b}",
        "product": f"{low}x{high}",
        "larger": f"max of {low},{high}",
    }
    return Fact({}, written.answers, keys[kind], written.choices, operands(a, b))


def _draft(
    name: str, stratum: str, kind: str, text: str, fact: Fact, source: Source = "template"
) -> Draft:
    item = Item(
        id="",
        task=DifficultyTask.name,
        group=f"difficulty: {name}",
        stratum=stratum,
        messages=user(text),
        answers=fact.answers,
        meta={
            "entity": kind,
            "type": " ".join(text.split()[:2]).strip(",:").lower(),
            "source": source,
            "shares": list(fact.shares),
            "choices": list(fact.choices),
        },
    )
    return Draft(item, source, (fact.key,))
