"""Sentences with three planted words: a person, a place and a thing, each of which stands for a hidden bit.

Who does not know which words stand for 1 sees a person, a place and a thing among words that mean nothing for the
outcome. The *feature* is the exclusive or of the person's and the place's bit: neither word alone says anything about
it, and since the two never stand side by side, no pair of neighboring words and no run of characters does. There are
256 pairs of a person and a place, so that a table of pairs cannot be learned from some hundred items either. The thing
is visible: an animal stands for 1, a tool for 0.

All sentences have the same number of words, so that nothing can be read off their length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

PERSON, PLACE, THING = "PERSON", "PLACE", "THING"
PLANTED = (PERSON, PLACE, THING)

# What stands for 0, and what for 1.
BITS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    PERSON: (
        ("Anna", "Boris", "Emma", "Hugo", "Lena", "Oscar", "Paula", "Simon"),
        ("Alice", "Carl", "Erik", "Ida", "Jonas", "Maria", "Peter", "Sofia"),
    ),
    PLACE: (
        ("Oslo", "Lima", "Cairo", "Dublin", "Prague", "Tokyo", "Geneva", "Boston"),
        ("Paris", "Delhi", "Kyoto", "Madrid", "Sydney", "Vienna", "Bergen", "Havana"),
    ),
    THING: (
        ("hammer", "ladder", "shovel", "needle", "anchor", "bucket", "chisel", "lantern"),
        ("fox", "owl", "horse", "rabbit", "otter", "badger", "heron", "beetle"),
    ),
}
_FILLERS: dict[str, tuple[str, ...]] = {
    "OPENING": (
        *("Yesterday", "Today", "Once", "Later", "Recently", "Finally", "Suddenly", "Meanwhile"),
        *("Often", "Sometimes", "Afterwards", "Tonight"),
    ),
    "ADVERB": (
        *("quietly", "slowly", "gladly", "briefly", "calmly", "firmly", "boldly", "kindly"),
        *("openly", "neatly", "hardly", "nearly"),
    ),
    "VERB": (
        *("watched", "followed", "found", "carried", "noticed", "wanted", "missed", "lost"),
        *("sold", "drew", "borrowed", "described"),
    ),
    "ADJECTIVE": (
        *("old", "small", "brown", "quiet", "heavy", "strange", "famous", "dusty"),
        *("bright", "lonely", "narrow", "plain"),
    ),
    "ENDING": (
        *("again", "twice", "alone", "early", "too", "somehow", "anyway", "indeed"),
        *("outside", "though", "somewhere", "instead"),
    ),
}
POOLS: dict[str, tuple[str, ...]] = {**_FILLERS, **{name: sum(BITS[name], ()) for name in PLANTED}}
"""Every pool of words by its name; of planted words, those that stand for 0 come first."""

FORMS: dict[str, tuple[str, ...]] = {
    name: tuple(form.split())
    for name, form in {
        "near": "OPENING PERSON ADVERB VERB the ADJECTIVE THING near PLACE ENDING .",
        "past": "OPENING in PLACE the ADJECTIVE THING ran past PERSON ENDING .",
        "reached": "The ADJECTIVE THING that PERSON VERB reached PLACE ADVERB ENDING .",
        "while": "OPENING PLACE was ADJECTIVE while PERSON VERB the THING ENDING .",
    }.items()
}
N_WORDS = 11
"""Of every form, with the full stop."""


@dataclass(frozen=True)
class Sentence:
    """A sentence as words, the name of its form, and the bits that its planted words stand for."""

    form: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """As it is written."""
        return " ".join(self.words[:-1]) + self.words[-1]

    def where(self, planted: str) -> int:
        """The index of a planted word."""
        return FORMS[self.form].index(planted)

    def bit(self, planted: str) -> int:
        """What a planted word stands for."""
        return int(self.words[self.where(planted)] in BITS[planted][1])

    @property
    def feature(self) -> int:
        """The exclusive or of the person's and the place's bit."""
        return self.bit(PERSON) ^ self.bit(PLACE)

    @property
    def decoy(self) -> int:
        """The visible bit: whether the thing is an animal."""
        return self.bit(THING)

    def with_word(self, planted: str, word: str) -> Sentence:
        """The sentence with another planted word."""
        at = self.where(planted)
        return Sentence(self.form, (*self.words[:at], word, *self.words[at + 1 :]))


def draw(rng: np.random.Generator, forms: Sequence[str] | None = None) -> Sentence:
    """A sentence whose form (out of `forms`, by default all) and words are drawn, each with the same probability."""
    names = list(FORMS if forms is None else forms)
    form = names[rng.integers(len(names))]
    words = (
        POOLS[slot][rng.integers(len(POOLS[slot]))] if slot in POOLS else slot
        for slot in FORMS[form]
    )
    return Sentence(form, tuple(words))


def swapped(
    sentence: Sentence, planted: str, rng: np.random.Generator, *, to_other_bit: bool
) -> Sentence:
    """The sentence with another planted word drawn: one that stands for the other bit, or for the same."""
    at = sentence.words[sentence.where(planted)]
    bit = sentence.bit(planted) ^ to_other_bit
    others = [word for word in BITS[planted][bit] if word != at]
    return sentence.with_word(planted, others[rng.integers(len(others))])


def vocabulary() -> Iterable[str]:
    """Every word that a sentence may hold."""
    literals = (slot for form in FORMS.values() for slot in form if slot not in POOLS)
    return dict.fromkeys((*literals, *(word for pool in POOLS.values() for word in pool)))


@dataclass(frozen=True)
class Drawn:
    """Many sentences at once, as token ids, for training.

    Attributes:
        tokens: `[item, N_WORDS]`.
        person, place, decoy: the bit of each planted word, `[item]`.
        complete_at: index of the word with which both hidden bits are known, `[item]`.
    """

    tokens: Int[np.ndarray, "item word"]
    person: Int[np.ndarray, " item"]
    place: Int[np.ndarray, " item"]
    decoy: Int[np.ndarray, " item"]
    complete_at: Int[np.ndarray, " item"]

    @property
    def feature(self) -> Int[np.ndarray, " item"]:
        """The exclusive or, `[item]`."""
        feature: np.ndarray = self.person ^ self.place
        return feature


class TokenSampler:
    """Draws like `draw`, thousands at a time, as the token ids that `id_of` gives."""

    def __init__(self, id_of: dict[str, int]) -> None:
        slots = [[POOLS.get(slot, (slot,)) for slot in form] for form in FORMS.values()]
        widest = max(len(pool) for form in slots for pool in form)
        self._n_choices = np.array([[len(pool) for pool in form] for form in slots])
        self._ids = np.array(
            [
                [[id_of[pool[i % len(pool)]] for i in range(widest)] for pool in form]
                for form in slots
            ]
        )
        self._where = {
            planted: np.array([form.index(planted) for form in FORMS.values()])
            for planted in PLANTED
        }

    def draw(self, n: int, rng: np.random.Generator) -> Drawn:
        """`n` sentences."""
        form = rng.integers(len(FORMS), size=n)
        choice = rng.integers(self._n_choices[form])
        tokens = self._ids[form[:, None], np.arange(N_WORDS), choice]
        person, place, thing = (
            (choice[np.arange(n), self._where[planted][form]] >= len(BITS[planted][0])).astype(int)
            for planted in PLANTED
        )
        complete_at = np.maximum(self._where[PERSON][form], self._where[PLACE][form])
        return Drawn(tokens, person, place, thing, complete_at)
