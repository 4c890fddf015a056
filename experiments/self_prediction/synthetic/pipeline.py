"""Items of a task in number, with outcomes that were observed: drafted, deduplicated, run, verified, balanced.

Rounds of drafts go through all steps until there are enough items. A round hangs on the seed and its number alone, and
what the model wrote and did is kept in the folder as it comes: a run that was killed gives the same bytes when it is
picked up, and one that asks for more items adds to the end of those that were there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from experiments.behavior import Behavior, LocalRunner, label_behavior
from experiments.progress import Reporter, Silent
from experiments.records import make_folder, read_json, write_json, write_rows, write_text
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.synthetic.balance import Pairs
from experiments.self_prediction.synthetic.card import Tally, data_card, digest, in_markdown
from experiments.self_prediction.synthetic.draft import Bank
from experiments.self_prediction.synthetic.duplicates import NEAR
from experiments.self_prediction.synthetic.questions import DifficultyBank
from experiments.self_prediction.synthetic.requests import RefusalBank
from experiments.self_prediction.synthetic.rounds import DRAFTS, Round
from experiments.self_prediction.synthetic.sieve import Sieve, unverified
from experiments.tasks import DifficultyTask, Item, RefusalTask, Task
from hooks import Model

BANKS: Mapping[str, type[Bank]] = {
    RefusalTask.name: RefusalBank,
    DifficultyTask.name: DifficultyBank,
}
DRAFTS_AN_ITEM = 16
"""Most drafts for an item: one outcome in twenty may be of the rarer kind."""


@dataclass(frozen=True)
class Synthesized:
    """Items with their outcomes, of which any beginning is balanced, and the data card."""

    labeled: Labeled
    card: Mapping[str, Any]


def synthesize(
    task: Task,
    model: Model,
    n: int,
    folder: Path,
    *,
    exclude: Sequence[Item] = (),
    seed: int = 0,
    reporter: Reporter | None = None,
    bank: Bank | None = None,
) -> Synthesized:
    """Make `n` items, half of each outcome within every stratum; fewer where the drafts do not give as many.

    Writes `items.jsonl`, `behavior.jsonl`, `card.json` and `card.md`, and keeps `*.partial.jsonl` beside them, from
    which a later call for more items goes on.

    Args:
        task: what the items are for.
        model: writes some of the drafts, and acts on all of them.
        n: most items.
        folder: of this task, model and seed alone.
        exclude: items that none of these may repeat, exactly, nearly or in what they ask for: those of a test.
        seed: of all that is drawn.
        reporter: shows how many items there are.
        bank: where drafts come from; by default the task's own.

    Raises:
        ValueError: a task without a bank, `n` under 2, or a folder that holds items made otherwise.
        RuntimeError: no two items of one stratum have different outcomes.
    """
    bank = bank or _bank_of(task)
    if n < 2:
        raise ValueError(f"n: {n} items have no balance; ask for at least 2")
    make_folder("folder", folder)
    about = {
        "task": task.name,
        "model": model.fingerprint,
        "seed": seed,
        "bank": bank.fingerprint,
        "near_duplicate": NEAR,
        "excluded": {"n": len(exclude), "sha256": digest([item.text for item in exclude])},
    }
    _claim(folder / "about.json", about)
    tally = Tally()
    pairs = _made(
        task, model, n, folder, Sieve(task, exclude), seed, bank, tally, reporter or Silent()
    )
    kept = [one for one, _ in pairs.kept[:n]]
    if not kept:
        raise RuntimeError(
            f"made items: of {tally.run} drafts that the model was run on, {len(tally.verified)} have an outcome, and "
            f"no two of a stratum a different one; {task.name} needs another model or other templates"
        )
    card = data_card(about, tally, kept, n, bank.limits)
    write_rows(folder / "items.jsonl", (item.to_json() for item, _ in kept))
    write_rows(folder / "behavior.jsonl", (behavior.to_json() for _, behavior in kept))
    write_json(folder / "card.json", card)
    write_text(folder / "card.md", in_markdown(card))
    outcome = np.array([behavior.outcome for _, behavior in kept])
    return Synthesized(Labeled(task, tuple(item for item, _ in kept), outcome), card)


def _made(
    task: Task,
    model: Model,
    n: int,
    folder: Path,
    sieve: Sieve,
    seed: int,
    bank: Bank,
    tally: Tally,
    reporter: Reporter,
) -> Pairs[tuple[Item, Behavior]]:
    """Go through rounds until there are `n` items in pairs, or the drafts are used up."""
    writes = LocalRunner(model, seed=seed, store=folder / "written.partial.jsonl")
    acts = LocalRunner(
        model, samples=task.min_samples, seed=seed, store=folder / "completions.partial.jsonl"
    )
    pairs: Pairs[tuple[Item, Behavior]] = Pairs()
    with reporter.stage(f"made items of {task.name}", n) as advance:
        for number in range(ceil(DRAFTS_AN_ITEM * n / DRAFTS)):
            before = len(pairs.kept)
            drafts = Round(bank, writes, task.name, number, seed).drafts(tally)
            items = []
            for draft in drafts:
                reason = sieve.reason(draft)
                if reason:
                    tally.left_out[reason] += 1
                else:
                    items.append(draft.item)
            tally.run += len(items)
            for item, behavior in zip(items, label_behavior(acts, task, items), strict=True):
                reason = unverified(behavior)
                if reason:
                    tally.dismissed[reason] += 1
                    continue
                assert behavior.outcome is not None
                tally.verified.append((item, behavior.outcome))
                pairs.add(item.stratum, behavior.outcome, (item, behavior))
            advance(min(len(pairs.kept), n) - min(before, n))
            if len(pairs.kept) >= n:
                break
    return pairs


def _bank_of(task: Task) -> Bank:
    if task.name not in BANKS:
        raise ValueError(
            f"task: there are no templates for {task.name!r}; choose from {', '.join(BANKS)}, or give a bank"
        )
    return BANKS[task.name]()


def _claim(path: Path, about: Mapping[str, Any]) -> None:
    """Write what the folder is of, or refuse one that is of something else."""
    if not path.exists():
        write_json(path, about)
        return
    held = read_json(path, "give another folder")
    for name, value in about.items():
        if held.get(name) != value:
            raise ValueError(
                f"folder: {path.parent} holds items made with another {name}; give another folder"
            )
