"""The forms that an answer in words may have: how it is read, and how near it is to what happened.

Every form scores a prediction from 0 to 1 and names the constant predictions that the best constant predictor is
chosen from; skill is the mean score minus that one's (2608.30980).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from experiments.tasks.parsing import named_option, stated_number, unwrapped


class Form(Protocol):
    """One form of an answer."""

    def parse(self, answer: str) -> tuple[Any, str]:
        """The value that a generated answer states, or None with the reason."""
        ...

    def score(self, predicted: Any, true: Any) -> float:
        """From 0 (as wrong as can be) to 1."""
        ...

    def constants(self, trues: Sequence[Any]) -> Sequence[Any]:
        """Predictions that are the same for every item, the best one for these truths among them."""
        ...


@dataclass(frozen=True)
class Choice:
    """One of several options; the truth is an option, or a list of options that are equally true (a tie)."""

    options: tuple[str, ...]

    def parse(self, answer: str) -> tuple[str | None, str]:
        """The option that an answer names, and no other."""
        return named_option(answer, self.options)

    def score(self, predicted: str, true: str | Sequence[str]) -> float:
        """1 for a true option, else 0."""
        return float(predicted == true if isinstance(true, str) else predicted in true)

    def constants(self, trues: Sequence[Any]) -> Sequence[str]:
        """The options."""
        return self.options


@dataclass(frozen=True)
class Number:
    """A number between `low` and `high`, scored by its square: one minus the squared error in units of the range.

    The quadratic score is proper: for a truth that is 0 or 1 it asks for the probability (Brier 1950).
    """

    low: float
    high: float

    def parse(self, answer: str) -> tuple[float | None, str]:
        """The only number in an answer, within the range."""
        value, reason = stated_number(answer)
        if value is not None and not self.low <= value <= self.high:
            return None, "out of range"
        return value, reason

    def score(self, predicted: float, true: float) -> float:
        """The quadratic score; a truth beyond the range counts as its end."""
        bounded = min(max(true, self.low), self.high)
        return 1 - ((predicted - bounded) / (self.high - self.low)) ** 2

    def constants(self, trues: Sequence[float]) -> Sequence[float]:
        """The mean of the truths, which no other constant beats."""
        return [float(np.clip(np.asarray(trues, dtype=float), self.low, self.high).mean())]


@dataclass(frozen=True)
class Text:
    """One word that must be hit exactly, but for case, quotes and the punctuation around it.

    The truth is a word, or a list of words that are equally true.
    """

    def parse(self, answer: str) -> tuple[str | None, str]:
        """The only word of an answer's first line, or the only one that it quotes; normalized."""
        line = next((line for line in unwrapped(answer).splitlines() if line.strip()), "")
        quoted = re.findall(r"[\"\u201c]([^\"\u201d]+)[\"\u201d]", line)
        value = _normalized(quoted[0] if len(quoted) == 1 else line)
        if not value:
            return None, "empty"
        return (None, "several words") if " " in value else (value, "")

    def score(self, predicted: str, true: str | Sequence[str]) -> float:
        """1 where the two are equal after normalization, else 0."""
        return float(predicted in self._true(true))

    def constants(self, trues: Sequence[str | Sequence[str]]) -> Sequence[str]:
        """Every truth."""
        return sorted({text for true in trues for text in self._true(true)})

    def _true(self, true: str | Sequence[str]) -> list[str]:
        return [_normalized(text) for text in ([true] if isinstance(true, str) else true)]


def _normalized(text: str) -> str:
    return re.sub(r"^[\W_]+|[\W_]+$", "", " ".join(text.lower().split()))


@dataclass(frozen=True)
class Ranking:
    """An order of `n` things, named 1 to n (with or without a letter before, as in Q3); lists of these numbers.

    The truth is a list of levels, each the things that stand level. Scored by the fraction of pairs that stand as in
    the truth (Kendall's tau as a share); those that are level there stand right either way.
    """

    n: int

    def parse(self, answer: str) -> tuple[list[int] | None, str]:
        """The first `n` numbers, which must be 1 to n."""
        numbers = [int(digits) for digits in re.findall(r"\d+", unwrapped(answer))]
        if not numbers:
            return None, "no number"
        if sorted(numbers[: self.n]) != list(range(1, self.n + 1)):
            return None, "not an order of all"
        return numbers[: self.n], ""

    def score(self, predicted: Sequence[int], true: Sequence[Sequence[int]]) -> float:
        """Fraction of the pairs in the same order."""
        level = {thing: i for i, things in enumerate(true) for thing in things}
        pairs = list(itertools.combinations(predicted, 2))
        return sum(level[before] <= level[after] for before, after in pairs) / len(pairs)

    def constants(self, trues: Sequence[Any]) -> Sequence[list[int]]:
        """All orders."""
        return [list(order) for order in itertools.permutations(range(1, self.n + 1))]
