"""Labelled answers, put together from sentences that were written for this."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
_HOW = re.compile(r"^How (?:do|can|should) (?:I|we) (.*)\?$")


@dataclass(frozen=True)
class Example:
    """An answer and its label."""

    text: str
    label: str


class Composer:
    """Draws answers of each kind; the same seed gives the same answers."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.texts: Mapping[str, Any] = _read("texts.yaml")
        self.answers: list[dict[str, str]] = _read("answers.yaml")
        self.recipes: Mapping[str, Sequence[Callable[[], str]]] = {
            "refuse": (
                self.refused_harm,
                self.refused_harm,
                self.objected_harm,
                self.refused_privacy,
                self.refused_claim,
                self.contradicted,
                self.cared,
                self.refused_harmless,
            ),
            "partial": (
                self.declined_then_helped,
                self.declined_then_helped,
                self.criticized_wording,
                self.fictional,
                self.limited,
            ),
            "comply": (self.answered, self.answered, self.answered, self.defined, self.plain),
        }

    def examples(self, n: int) -> list[Example]:
        """`n` answers of each label, its recipes in turn."""
        return [
            Example(recipes[i % len(recipes)](), label)
            for label, recipes in self.recipes.items()
            for i in range(n)
        ]

    def openings(self) -> list[Example]:
        """Answers that break off after 16 tokens, as written."""
        return [
            Example(text, label) for label in self.recipes for text in self.texts["openings"][label]
        ]

    def refused_harm(self) -> str:
        """Declines, moralizes, refers elsewhere."""
        text = self._one("declines").format(how=f"how to {self._one('harmful')}")
        return self._broken_off(self._joined([text, *self._sermon("morals"), self._ending()]))

    def objected_harm(self) -> str:
        """Moralizes and never says that it cannot."""
        text = self._one("objects").format(act=self._one("harmful"))
        return self._broken_off(self._joined([text, *self._sermon("morals", 1), self._ending()]))

    def refused_harmless(self) -> str:
        """Declines what nobody would mind."""
        text = self._one("declines").format(how=self._how(self._how_answer()))
        return self._broken_off(self._joined([text, *self._sermon("morals"), self._ending()]))

    def refused_privacy(self) -> str:
        """Has or gives no personal data."""
        text = self._one("private_declines").format(thing=self._one("private"))
        return self._joined([text, *self._some("private_morals", 3), self._maybe("closers")])

    def refused_claim(self) -> str:
        """Argues against what it was asked to argue for."""
        text = self._one("claim_objections").format(claim=self._one("claims"))
        return self._joined([text, *self._some("claim_morals", 4, 1), self._maybe("closers")])

    def contradicted(self) -> str:
        """Says the opposite of what it was asked to give reasons for."""
        text = self._one("contradictions").format(people=self._one("people"))
        text = text[0].upper() + text[1:]
        return self._joined([text, *self._some("claim_morals", 3), self._maybe("closers")])

    def cared(self) -> str:
        """Sends the reader to help."""
        return self._broken_off(
            self._joined([self._one("crises"), *self._sermon("morals"), self._ending()])
        )

    def declined_then_helped(self) -> str:
        """Declines or objects, turns around and helps."""
        answer = self._how_answer()
        how = self._how(answer)
        if self.draw.random() < 0.7:
            opening = self._one("declines").format(how=how)
        else:
            opening = self._one("objects").format(act=how.removeprefix("how to "))
        return self._joined(
            [opening, *self._some("morals", 2), self._one("pivots"), answer["completion"]]
        )

    def criticized_wording(self) -> str:
        """Finds fault with a word and helps."""
        return self._joined(
            [
                self._one("wording"),
                *self._some("morals", 1),
                self._maybe("pivots"),
                self._how_answer()["completion"],
            ]
        )

    def fictional(self) -> str:
        """Declines, and says that the person does not exist."""
        text = self._one("fictional_partials").format(
            secret=self._one("secrets"), who=self._one("characters")
        )
        return self._joined([text, self._maybe("private_morals"), self._maybe("closers")])

    def limited(self) -> str:
        """Names a limit and does what lies within it."""
        return self._joined([self._one("limited_partials"), self._maybe("caveats")])

    def answered(self) -> str:
        """Answers, perhaps with a friendly word before it and a warning after it."""
        answer = self.draw.choice(self.answers)["completion"]
        return self._broken_off(
            self._joined([self._maybe("openers"), answer, *self._some("caveats", 2)])
        )

    def defined(self) -> str:
        """Explains something dangerous or senseless."""
        kind = self.draw.choice(("definitions", "definitions", "premises"))
        return self._joined([self._one(kind), *self._some("caveats", 2)])

    def plain(self) -> str:
        """A short answer."""
        return self._joined([self._maybe("openers"), self._one("plain")])

    def _one(self, kind: str) -> str:
        texts: list[str] = self.texts[kind]
        return self.draw.choice(texts)

    def _maybe(self, kind: str) -> str:
        return self._one(kind) if self.draw.random() < 0.4 else ""

    def _some(self, kind: str, most: int, least: int = 0) -> list[str]:
        return self.draw.sample(self.texts[kind], self.draw.randint(least, most))

    def _sermon(self, kind: str, least: int = 0) -> list[str]:
        return [*self._some(kind, 4, least), *self._some("redirects", 2)]

    def _ending(self) -> str:
        return self._maybe("support_lists") if self.draw.random() < 0.3 else self._maybe("closers")

    def _how_answer(self) -> dict[str, str]:
        return self.draw.choice([a for a in self.answers if _HOW.match(a["prompt"])])

    def _how(self, answer: Mapping[str, str]) -> str:
        asked = _HOW.match(answer["prompt"])
        assert asked is not None
        return "how to " + asked[1].replace(" my ", " your ")

    def _joined(self, parts: Sequence[str]) -> str:
        between = [self.draw.choice((" ", " ", "\n\n")) for _ in parts]
        return "".join(p + b for p, b in zip(parts, between, strict=True) if p).strip()

    def _broken_off(self, text: str) -> str:
        """Half of the texts, cut after eight words or more, as a limit on tokens would."""
        words = text.split(" ")
        if self.draw.random() < 0.5 or len(words) <= 8:
            return text
        return " ".join(words[: self.draw.randint(8, len(words))])


def _read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
