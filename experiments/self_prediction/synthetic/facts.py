"""Facts that questions ask for, drawn in number: each with its right answer, worked out here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_LONGEST_NUMBER = 4
_YEAR = 2020
"""From which ages are counted back to years of birth."""


@dataclass(frozen=True)
class Unit:
    """So many of the small are one of the large."""

    large: str
    small: str
    factor: int


@dataclass(frozen=True)
class Pools:
    """What facts are about."""

    words: Sequence[str]
    names: Sequence[str]
    units: Sequence[Unit]
    capitals: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Fact:
    """What a wording is filled with, and what is right.

    Attributes:
        fields: by the name that stands in the wording's braces.
        answers: equally right ones.
        key: names the fact, whatever the wording.
        choices: the options that the wording names, if any.
        shares: what the fact is about, as items of the difficulty task have it in `meta["shares"]`.
    """

    fields: Mapping[str, object]
    answers: tuple[str, ...]
    key: str
    choices: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()


def _number(rng: np.random.Generator, least: int = 1, most: int = _LONGEST_NUMBER) -> int:
    """A number of any length alike: its digits decide how hard it is to reckon with."""
    digits = int(rng.integers(least, most + 1))
    return int(rng.integers(max(2, 10 ** (digits - 1)), 10**digits))


def _two(rng: np.random.Generator, least: int = 1, most: int = _LONGEST_NUMBER) -> tuple[int, int]:
    """Two different numbers of the same length, in any order."""
    digits = int(rng.integers(least, most + 1))
    first = _number(rng, digits, digits)
    second = first
    while second == first:
        second = _number(rng, digits, digits)
    return first, second


def operands(a: int, b: int) -> tuple[str, ...]:
    """What a fact about two numbers shares with the others about them."""
    low, high = sorted((a, b))
    return (f"operands:{low},{high}",)


def addition(rng: np.random.Generator, pools: Pools) -> Fact:
    """The sum of two numbers."""
    a, b = _number(rng), _number(rng)
    low, high = sorted((a, b))
    return Fact({"a": a, "b": b}, (str(a + b),), f"{low}+{high}", shares=operands(a, b))


def subtraction(rng: np.random.Generator, pools: Pools) -> Fact:
    """A number minus a smaller one."""
    b, a = sorted(_two(rng))
    return Fact({"a": a, "b": b}, (str(a - b),), f"{a}-{b}", shares=operands(a, b))


def three_terms(rng: np.random.Generator, pools: Pools) -> Fact:
    """The sum of three numbers."""
    digits = int(rng.integers(1, 4))
    a, b, c = (_number(rng, digits, digits) for _ in range(3))
    key = "+".join(map(str, sorted((a, b, c))))
    return Fact({"a": a, "b": b, "c": c}, (str(a + b + c),), key)


def multiplication(rng: np.random.Generator, pools: Pools) -> Fact:
    """The product of two numbers, the second of at most two digits."""
    a, b = _number(rng, 1, 3), _number(rng, 1, 2)
    low, high = sorted((a, b))
    return Fact({"a": a, "b": b}, (str(a * b),), f"{low}x{high}", shares=operands(a, b))


def division(rng: np.random.Generator, pools: Pools) -> Fact:
    """A division without rest."""
    a, b = _number(rng, 1, 2), _number(rng, 1, 2)
    fields = {"product": a * b, "a": a}
    return Fact(fields, (str(b),), f"{a * b}/{a}", shares=operands(a, b))


def percent(rng: np.random.Generator, pools: Pools) -> Fact:
    """A share in percent that is a whole number."""
    p = 5 * int(rng.integers(1, 20))
    whole = 20 * int(rng.integers(1, 100))
    return Fact({"p": p, "whole": whole}, (str(p * whole // 100),), f"{p}% of {whole}")


def weekday(rng: np.random.Generator, pools: Pools) -> Fact:
    """The day of the week so many days later."""
    day, n = int(rng.integers(7)), int(rng.integers(2, 31))
    return Fact({"day": DAYS[day], "n": n}, (DAYS[(day + n) % 7],), f"{DAYS[day]}+{n}")


def weekday_before(rng: np.random.Generator, pools: Pools) -> Fact:
    """The day of the week so many days before."""
    day, n = int(rng.integers(7)), int(rng.integers(2, 31))
    return Fact({"day": DAYS[day], "n": n}, (DAYS[(day - n) % 7],), f"{DAYS[day]}-{n}")


def month(rng: np.random.Generator, pools: Pools) -> Fact:
    """The month so many months later."""
    first, n = int(rng.integers(12)), int(rng.integers(2, 31))
    return Fact(
        {"month": MONTHS[first], "n": n}, (MONTHS[(first + n) % 12],), f"{MONTHS[first]}+{n}"
    )


def year(rng: np.random.Generator, pools: Pools) -> Fact:
    """The years between two years."""
    born = int(rng.integers(1400, 1950))
    n = int(rng.integers(2, 71))
    fields = {"born": born, "died": born + n}
    return Fact(fields, (str(n),), f"{born}-{born + n}", shares=operands(born, born + n))


def _word(rng: np.random.Generator, pools: Pools) -> str:
    return str(rng.choice(np.array(pools.words)))


def first_letter(rng: np.random.Generator, pools: Pools) -> Fact:
    """The first letter of a word."""
    word = _word(rng, pools)
    return Fact({"word": word}, (word[0],), f"first of {word}", shares=(f"word:{word}",))


def last_letter(rng: np.random.Generator, pools: Pools) -> Fact:
    """The last letter of a word."""
    word = _word(rng, pools)
    return Fact({"word": word}, (word[-1],), f"last of {word}", shares=(f"word:{word}",))


def nth_letter(rng: np.random.Generator, pools: Pools) -> Fact:
    """A letter within a word, counted from 1."""
    word = _word(rng, pools)
    n = int(rng.integers(2, len(word)))
    fields = {"word": word, "n": n}
    return Fact(fields, (word[n - 1],), f"{n} of {word}", shares=(f"word:{word}",))


def length(rng: np.random.Generator, pools: Pools) -> Fact:
    """How many letters a word has."""
    word = _word(rng, pools)
    return Fact({"word": word}, (str(len(word)),), f"length of {word}", shares=(f"word:{word}",))


def larger(rng: np.random.Generator, pools: Pools) -> Fact:
    """The larger of two numbers."""
    return _of_two_numbers(rng, max)


def smaller(rng: np.random.Generator, pools: Pools) -> Fact:
    """The smaller of two numbers."""
    return _of_two_numbers(rng, min)


def _of_two_numbers(rng: np.random.Generator, chosen: Callable[..., int]) -> Fact:
    a, b = _two(rng, least=2)
    key = f"{chosen.__name__} of {min(a, b)},{max(a, b)}"
    choices = (str(a), str(b))
    return Fact({"a": a, "b": b}, (str(chosen(a, b)),), key, choices, operands(a, b))


def alphabet(rng: np.random.Generator, pools: Pools) -> Fact:
    """Which of two words comes first."""
    left, right = (str(word) for word in rng.choice(np.array(pools.words), 2, replace=False))
    key = f"alphabet of {min(left, right)},{max(left, right)}"
    return Fact({"left": left, "right": right}, (min(left, right),), key, (left, right))


def older(rng: np.random.Generator, pools: Pools) -> Fact:
    """Which of two people is older."""
    left, right = (str(name) for name in rng.choice(np.array(pools.names), 2, replace=False))
    a, b = (int(age) for age in rng.choice(np.arange(5, 95), 2, replace=False))
    fields = {
        "left": left, "right": right, "a": a, "b": b, "born_left": _YEAR - a, "born_right": _YEAR - b,
    }  # fmt: skip
    key = f"older of {sorted(((left, a), (right, b)))}"
    return Fact(fields, (left if a > b else right,), key, (left, right))


def parity(rng: np.random.Generator, pools: Pools) -> Fact:
    """Whether a number is even."""
    a = _number(rng, 2)
    return Fact({"a": a}, (("even", "odd")[a % 2],), f"parity of {a}", ("even", "odd"))


def _converted(rng: np.random.Generator, pools: Pools) -> tuple[Unit, int, dict[str, object]]:
    unit = pools.units[int(rng.integers(len(pools.units)))]
    n = int(rng.integers(2, 41))
    return unit, n, {"n": n, "total": n * unit.factor, "small": unit.small, "large": unit.large}


def convert_up(rng: np.random.Generator, pools: Pools) -> Fact:
    """How many of a small unit are some of a large one."""
    unit, n, fields = _converted(rng, pools)
    return Fact(fields, (str(n * unit.factor),), f"{n} {unit.large} in {unit.small}")


def convert_down(rng: np.random.Generator, pools: Pools) -> Fact:
    """How many of a large unit are some of a small one."""
    unit, n, fields = _converted(rng, pools)
    return Fact(fields, (str(n),), f"{n * unit.factor} {unit.small} in {unit.large}")


def _country(rng: np.random.Generator, pools: Pools) -> tuple[str, tuple[str, ...]]:
    places = list(pools.capitals.items())
    return places[int(rng.integers(len(places)))]


def about_capital(country: str, capitals: Sequence[str]) -> tuple[str, ...]:
    """What a fact about a capital shares with the others about it."""
    return (f"country:{country}", f"capital:{capitals[0]}")


def capital(rng: np.random.Generator, pools: Pools) -> Fact:
    """The capital of a country."""
    country, capitals = _country(rng, pools)
    shares = about_capital(country, capitals)
    return Fact({"country": country}, capitals, f"capital of {country}", shares=shares)


def capital_of(rng: np.random.Generator, pools: Pools) -> Fact:
    """The country of a capital."""
    country, capitals = _country(rng, pools)
    shares = about_capital(country, capitals)
    fields = {"capital": capitals[0]}
    return Fact(fields, (country,), f"country of {capitals[0]}", shares=shares)


FACTS: Mapping[str, Callable[[np.random.Generator, Pools], Fact]] = {
    kind.__name__: kind
    for kind in (
        addition,
        subtraction,
        three_terms,
        multiplication,
        division,
        percent,
        weekday,
        weekday_before,
        month,
        year,
        first_letter,
        last_letter,
        nth_letter,
        length,
        larger,
        smaller,
        alphabet,
        older,
        parity,
        convert_up,
        convert_down,
        capital,
        capital_of,
    )
}
"""By the kind that the wordings stand under."""
