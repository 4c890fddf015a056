"""The drafts of a round: templates filled, and items that the model wrote. A round hangs on seed and number alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from experiments.self_prediction.synthetic.card import Tally
from experiments.self_prediction.synthetic.draft import Bank, Draft
from experiments.tasks import Runner

TEMPLATED = 192
"""Drafts of templates a round."""
REQUESTS, SAMPLES = 16, 4
"""How often a round asks the model to write an item, and how many it writes each time."""
DRAFTS = TEMPLATED + REQUESTS * SAMPLES
WRITTEN_TOKENS = 32
_FILLING, _ASKING = 0, 1
"""Streams of random numbers."""


@dataclass(frozen=True)
class Round:
    """A round of drafts.

    Attributes:
        bank: of the task.
        run: the model that writes.
        task: its name.
        number: of the round, from 0.
        seed: of all that is drawn.
    """

    bank: Bank
    run: Runner
    task: str
    number: int
    seed: int

    def drafts(self, tally: Tally) -> Iterator[Draft]:
        """Drafts with ids, those of templates first; what the model wrote and could not be read is counted."""
        for place in _places(self.number, TEMPLATED):
            tally.drafted["template"] += 1
            draft = self.bank.draw(place, np.random.default_rng([self.seed, _FILLING, place]))
            yield _named(draft, f"{self.task}-filled-{place:06d}")
        places = _places(self.number, REQUESTS)
        requests = [
            self.bank.request(place, np.random.default_rng([self.seed, _ASKING, place]))
            for place in places
        ]
        written = self.run.complete(
            [request.prompt(str(place)) for place, request in zip(places, requests, strict=True)],
            max_new_tokens=WRITTEN_TOKENS,
            samples=SAMPLES,
        )
        for place, request, own in zip(places, requests, written, strict=True):
            for one in own:
                tally.drafted["model"] += 1
                made, reason = self.bank.read(request, one.text)
                if made is None:
                    tally.left_out[f"unreadable: {reason}"] += 1
                else:
                    yield _named(made, f"{self.task}-written-{place:05d}{one.sample}")


def _places(number: int, size: int) -> range:
    """What a round takes of a row without end."""
    return range(number * size, (number + 1) * size)


def _named(draft: Draft, id: str) -> Draft:
    return replace(draft, item=replace(draft.item, id=id))
