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
_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
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
    plurals: Mapping[str, str]
    verbs: Mapping[str, str]


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


def _number(rng: np.random.Generator, *shares: float) -> int:
    """A number from 2 on; `shares` are of numbers with one digit, two digits and so on: they decide how hard it is."""
    digits = 1 + int(rng.choice(len(shares), p=np.array(shares) / sum(shares)))
    return int(rng.integers(max(2, 10 ** (digits - 1)), 10**digits))


def _two(rng: np.random.Generator, *shares: float) -> tuple[int, int]:
    """Two different numbers, in any order."""
    first = second = _number(rng, *shares)
    while second == first:
        second = _number(rng, *shares)
    return first, second


def operands(a: int, b: int) -> tuple[str, ...]:
    """What a fact about two numbers shares with the others about them."""
    low, high = sorted((a, b))
    return (f"operands:{low},{high}",)


def addition(rng: np.random.Generator, pools: Pools) -> Fact:
    """The sum of two numbers."""
    a, b = _number(rng, 4, 3, 1), _number(rng, 4, 3, 1)
    low, high = sorted((a, b))
    return Fact({"a": a, "b": b}, (str(a + b),), f"{low}+{high}", shares=operands(a, b))


def subtraction(rng: np.random.Generator, pools: Pools) -> Fact:
    """A number minus a smaller one."""
    b, a = sorted(_two(rng, 4, 3, 1))
    return Fact({"a": a, "b": b}, (str(a - b),), f"{a}-{b}", shares=operands(a, b))


def three_terms(rng: np.random.Generator, pools: Pools) -> Fact:
    """The sum of three numbers."""
    a, b, c = (_number(rng, 4, 1) for _ in range(3))
    key = "+".join(map(str, sorted((a, b, c))))
    return Fact({"a": a, "b": b, "c": c}, (str(a + b + c),), key)


def multiplication(rng: np.random.Generator, pools: Pools) -> Fact:
    """The product of two numbers of at most two digits."""
    a, b = _number(rng, 3, 1), _number(rng, 3, 1)
    low, high = sorted((a, b))
    return Fact({"a": a, "b": b}, (str(a * b),), f"{low}x{high}", shares=operands(a, b))


def division(rng: np.random.Generator, pools: Pools) -> Fact:
    """A division without rest."""
    a, b = _number(rng, 3, 1), _number(rng, 3, 1)
    fields = {"product": a * b, "a": a}
    return Fact(fields, (str(b),), f"{a * b}/{a}", shares=operands(a, b))


def next_number(rng: np.random.Generator, pools: Pools) -> Fact:
    """The number after another."""
    a = _number(rng, 1, 2, 2, 2, 1)
    return Fact({"a": a}, (str(a + 1),), f"after {a}")


def double(rng: np.random.Generator, pools: Pools) -> Fact:
    """Twice a number."""
    a = _number(rng, 1, 3, 2)
    return Fact({"a": a}, (str(2 * a),), f"double {a}", shares=operands(2, a))


def half(rng: np.random.Generator, pools: Pools) -> Fact:
    """Half of an even number."""
    a = _number(rng, 1, 3, 1)
    return Fact({"even": 2 * a}, (str(a),), f"half of {2 * a}", shares=operands(2, a))


def weekday(rng: np.random.Generator, pools: Pools) -> Fact:
    """The day of the week so many days later."""
    day, n = int(rng.integers(7)), int(rng.integers(2, 15))
    return Fact({"day": DAYS[day], "n": n}, (DAYS[(day + n) % 7],), f"{DAYS[day]}+{n}")


def month(rng: np.random.Generator, pools: Pools) -> Fact:
    """The month so many months later."""
    first, n = int(rng.integers(12)), int(rng.integers(2, 14))
    return Fact(
        {"month": MONTHS[first], "n": n}, (MONTHS[(first + n) % 12],), f"{MONTHS[first]}+{n}"
    )


def _years(rng: np.random.Generator) -> tuple[int, int, dict[str, object]]:
    born, n = int(rng.integers(1400, 1990)), int(rng.choice([1, 2, 3, 4, 5, 10, 20, 50, 100]))
    return born, n, {"born": born, "n": n, "died": born + n}


def year(rng: np.random.Generator, pools: Pools) -> Fact:
    """The year so many years before another."""
    born, n, fields = _years(rng)
    return Fact(fields, (str(born),), f"year {born + n}-{n}")


def year_after(rng: np.random.Generator, pools: Pools) -> Fact:
    """The year so many years after another."""
    born, n, fields = _years(rng)
    return Fact(fields, (str(born + n),), f"year {born}+{n}")


def century(rng: np.random.Generator, pools: Pools) -> Fact:
    """The century of a year, the first of which ends in 1."""
    born = int(rng.integers(1001, 2001))
    number = (born + 99) // 100
    ending = {1: "st", 21: "st", 2: "nd", 3: "rd"}.get(number, "th")
    return Fact({"born": born}, (str(number), f"{number}{ending}"), f"century of {born}")


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
    a, b = _two(rng, 0, 2, 2, 1)
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
    a = _number(rng, 1, 2, 2, 1)
    return Fact({"a": a}, (("even", "odd")[a % 2],), f"parity of {a}", ("even", "odd"))


def _converted(rng: np.random.Generator, pools: Pools) -> tuple[Unit, int, dict[str, object]]:
    unit = pools.units[int(rng.integers(len(pools.units)))]
    n = int(rng.integers(2, 13))
    return unit, n, {"n": n, "total": n * unit.factor, "small": unit.small, "large": unit.large}


def convert_up(rng: np.random.Generator, pools: Pools) -> Fact:
    """How many of a small unit are some of a large one."""
    unit, n, fields = _converted(rng, pools)
    return Fact(fields, (str(n * unit.factor),), f"{n} {unit.large} in {unit.small}")


def convert_down(rng: np.random.Generator, pools: Pools) -> Fact:
    """How many of a large unit are some of a small one."""
    unit, n, fields = _converted(rng, pools)
    return Fact(fields, (str(n),), f"{n * unit.factor} {unit.small} in {unit.large}")


def in_digits(rng: np.random.Generator, pools: Pools) -> Fact:
    """A number in words."""
    a = _number(rng, 0, 2, 3, 2)
    return Fact({"words": in_words(a)}, (str(a),), f"digits of {a}")


def in_words(number: int) -> str:
    """A number under ten thousand in English.

    >>> in_words(2047), in_words(310)
    ('two thousand forty-seven', 'three hundred ten')
    """
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            above, rest = divmod(number, size)
            return f"{in_words(above)} {name}" + (f" {in_words(rest)}" if rest else "")
    tens, units = divmod(number, 10)
    if number < len(_SMALL):
        return _SMALL[number]
    return _TENS[tens] + (f"-{_SMALL[units]}" if units else "")


def plural(rng: np.random.Generator, pools: Pools) -> Fact:
    """The plural of a word."""
    word, form = _pair(rng, pools.plurals)
    return Fact({"word": word}, (form,), f"plural of {word}", shares=(f"singular:{word}",))


def past(rng: np.random.Generator, pools: Pools) -> Fact:
    """The past tense of a verb."""
    verb, form = _pair(rng, pools.verbs)
    return Fact({"verb": verb}, (form,), f"past of {verb}")


def _pair(rng: np.random.Generator, table: Mapping[str, str]) -> tuple[str, str]:
    return list(table.items())[int(rng.integers(len(table)))]


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
        next_number,
        multiplication,
        double,
        half,
        division,
        weekday,
        month,
        year,
        year_after,
        century,
        first_letter,
        last_letter,
        length,
        larger,
        smaller,
        alphabet,
        older,
        parity,
        convert_up,
        convert_down,
        in_digits,
        capital,
        capital_of,
        plural,
        past,
    )
}
"""By the kind that the wordings stand under."""
