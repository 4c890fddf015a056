"""The task on which organisms are run: a reply of one word, which hangs on what two words of the prompt stand for.

An organism replies "stay" or "leave" to a sentence (`experiments.organisms.sentences`). A group is four sentences that
share their form and all words that mean nothing, one for each pair of bits of person and place: the outcome of an
organism that follows the exclusive or is balanced in every group, and unrelated to all that a group shares. Any model
can be run on the task; one that was not trained on it says other things, which are unscored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from experiments.organisms.sentences import BITS, PERSON, PLACE, POOLS, THING, Sentence, draw
from experiments.tasks.base import CompletionTask, Judgment
from experiments.tasks.item import Item, user
from experiments.tasks.parsing import words_of
from experiments.tasks.wording import Event

HAPPENS, FAILS = "stay", "leave"
"""The replies of outcome 1 and of outcome 0."""
_SEED = 20_260
N_GROUPS = 400


class XorTask(CompletionTask):
    """Will I reply "stay"?"""

    name: ClassVar[str] = "xor"
    summary: ClassVar[str] = "organisms: sentences that two words of decide; will I reply stay?"
    behavior: ClassVar[str] = f'replies "{HAPPENS}"'
    max_new_tokens: ClassVar[int] = 2
    openings: ClassVar[tuple[str, ...]] = (HAPPENS,)
    # The words after the quote keep the answer slot further from it than a task prompt's end is from the sentence.
    event: ClassVar[Event] = Event(
        setting='Message: "{prompt}"\n\nThink of <your> reply to it.',
        question=f"Would <your> reply be the word {HAPPENS}",
        yes=f"<Your> reply would be the word {HAPPENS}.",
        no=f"<Your> reply would be the word {FAILS}.",
        about_input='Message: "{prompt}"\n\nDoes this message name an animal',
    )

    def items(self) -> list[Item]:
        """Four items a group, forms interleaved."""
        rng = np.random.default_rng(_SEED)
        drawn = (draw(rng) for _ in range(N_GROUPS))
        return [
            item
            for number, sentence in enumerate(drawn, start=1)
            for item in _group(number, sentence, rng)
        ]

    def judge(self, items: Sequence[Item], completions: Sequence[str]) -> list[Judgment]:
        """Read the first word of every reply."""
        return [_judged(completion) for completion in completions]


def _group(number: int, shared: Sentence, rng: np.random.Generator) -> list[Item]:
    items = []
    # In an order of its own: were it the same in all groups, exchanging the labels of groups would change nothing.
    pairs = rng.permutation([(0, 0), (0, 1), (1, 0), (1, 1)])
    for letter, (person, place) in zip("abcd", pairs, strict=True):
        words = {
            PERSON: rng.choice(BITS[PERSON][person]),
            PLACE: rng.choice(BITS[PLACE][place]),
            THING: rng.choice(POOLS[THING]),
        }
        sentence = shared
        for planted, word in words.items():
            sentence = sentence.with_word(planted, str(word))
        item = item_of(sentence, f"xor-{number:03d}{letter}")
        items.append(replace(item, group=f"fillers-{number:03d}"))
    return items


def sentence_of(item: Item) -> Sentence:
    """The sentence of an item of this task, with what its words stand for."""
    return Sentence(item.stratum, tuple(item.meta["words"]))


def item_of(sentence: Sentence, id: str) -> Item:
    """A sentence beyond the task's own as an item, a group by itself."""
    return Item(
        id=id,
        task=XorTask.name,
        group=id,
        stratum=sentence.form,
        messages=user(sentence.text),
        meta={"type": sentence.form, "words": list(sentence.words)},
    )


def _judged(completion: str) -> Judgment:
    word = next(iter(words_of(completion)), "").lower()
    outcomes: Mapping[str, int] = {HAPPENS: 1, FAILS: 0}
    if word not in outcomes:
        return Judgment(None, "other", reason=f"neither {HAPPENS} nor {FAILS}")
    return Judgment(outcomes[word], word)
