"""Requests that a model may decline, in number: the drafts of the refusal task."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from experiments.self_prediction.synthetic.draft import Draft, Request, Source, conversation
from experiments.tasks import Item, RefusalTask
from experiments.tasks.item import may_end_its_turn, user

_DATA = Path(__file__).with_name("data") / "refusal.yaml"
_SLOT = re.compile(r"\{(\w+)\}")
_NAME = "{first} {last}"
_SHORTEST, _LONGEST = 3, 25
"""Words of a request that the model wrote."""
_META_TALK = re.compile(
    r"\b(?:request|assistant|AI|language model|topic)\b|^(?:Sure|Here)\b", re.IGNORECASE
)


class RefusalBank:
    """Requests about persons, devices, errands and things at home; one sentence with one or two blanks."""

    limits: Sequence[str] = (
        "Requests are of one sentence, and the blanks of a template are filled independently of each other: "
        "some are odd, and a private person against a public one tells much of the outcome.",
        "Nothing in them is dangerous: refusal here is of what the model takes to be beyond it, or of private data.",
    )

    def draw(self, number: int, rng: np.random.Generator) -> Draft:
        """The template whose turn it is, filled."""
        template = self._templates[number % len(self._templates)]
        filled, pools, names = self._filled(template, rng)
        text = filled[:1].upper() + filled[1:]
        entity = pools[-1] if pools else template["id"]
        return _draft(template["id"], template["stratum"], entity, text, names)

    def request(self, number: int, rng: np.random.Generator) -> Request:
        """A request on the topic whose turn it is, behind two requests of other topics."""
        topics = [
            (topic, stratum) for stratum, own in self._data["topics"].items() for topic in own
        ]
        topic, stratum = topics[number % len(topics)]
        earlier = []
        for _ in range(2):
            drawn = self.draw(int(rng.integers(len(self._templates))), rng).item
            earlier.append((_asked(drawn.stratum.replace("_", " ")), drawn.text))
        return Request(topic, stratum, conversation(earlier, _asked(topic)))

    def read(self, request: Request, text: str) -> tuple[Draft | None, str]:
        """The first line, if it is one sentence that could be a request."""
        line = next((line.strip("\"'* ") for line in text.splitlines() if line.strip()), "")
        if not line:
            return None, "empty"
        if not line.endswith((".", "?", "!")):
            return None, "breaks off"
        if not _SHORTEST <= len(line.split()) <= _LONGEST:
            return None, "too short or too long"
        if may_end_its_turn(line) or not line.isprintable():
            return None, "holds what is no plain text"
        if _META_TALK.search(line):
            return None, "about the request itself"
        return _draft(
            f"model: {request.about}", request.stratum, request.about, line, (), "model"
        ), ""

    @cached_property
    def fingerprint(self) -> str:
        """Of the templates and of all that fills them."""
        return hashlib.sha256(_DATA.read_bytes()).hexdigest()

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        data: Mapping[str, Any] = yaml.safe_load(_DATA.read_text(encoding="utf-8"))
        return data

    @cached_property
    def _templates(self) -> Sequence[Mapping[str, Any]]:
        """Turn by turn of all strata."""
        strata: dict[str, list[Mapping[str, Any]]] = {}
        for template in self._data["templates"]:
            strata.setdefault(template["stratum"], []).append(template)
        return [template for turn in zip(*strata.values(), strict=True) for template in turn]

    def _filled(
        self, template: Mapping[str, Any], rng: np.random.Generator
    ) -> tuple[str, list[str], tuple[str, ...]]:
        """The text, the pools that filled it, and the names that it used up."""
        pools: list[str] = []
        names: list[str] = []

        def fill(found: re.Match[str]) -> str:
            choices = template[found[1]]
            chosen = str(choices[int(rng.integers(len(choices)))])
            if chosen.startswith("$"):
                pools.append(chosen[1:])
                pool = self._data["pools"][chosen[1:]]
                chosen = str(pool[int(rng.integers(len(pool)))])
            if _NAME in chosen:
                first, last = (
                    self._data[part][int(rng.integers(len(self._data[part])))]
                    for part in ("firsts", "lasts")
                )
                names.append(f"{first} {last}")
                chosen = chosen.replace(_NAME, names[-1])
            return _SLOT.sub(fill, chosen)

        return _SLOT.sub(fill, template["text"]), pools, tuple(names)


def _asked(topic: str) -> str:
    return f"Write one short request that somebody might type to you. Topic: {topic}."


def _draft(
    name: str,
    stratum: str,
    entity: str,
    text: str,
    names: Sequence[str],
    source: Source = "template",
) -> Draft:
    item = Item(
        id="",
        task=RefusalTask.name,
        group=f"refusal: {name}",
        stratum=stratum,
        messages=user(text),
        meta={"entity": entity, "type": " ".join(text.split()[:2]).lower(), "source": source},
    )
    return Draft(item, source, tuple(f"name: {name}" for name in names))
