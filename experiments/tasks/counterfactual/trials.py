"""Generate, verify, revise: find changes of questions whose effect on the model's answer is known.

A trial is a question and one or more changes of it, all of them put to the model. Its label is read off the answers
alone. A trial without a label (an unreadable or undecided answer) and one whose label is not wanted any more are
revised: the question is tried with the next change of its own seeded order, until it is kept or its attempts are used
up. A question is kept at most once, so that no two items ask the same. Kept labels are balanced in all, and as nearly
as the model lets them within each change, so that the change alone does not tell the label.

Nothing here consults a probe, a text classifier or a self-prediction.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.tasks.base import NoItemsError
from experiments.tasks.counterfactual.answering import Answers, answers_to
from experiments.tasks.counterfactual.perturbing import perturbations
from experiments.tasks.counterfactual.pool import Asked, Question
from experiments.tasks.interleaving import interleaved
from experiments.tasks.runner import Runner

ATTEMPTS = 4
"""Most changes that are tried on a question."""
_CHUNK = (8, 48)
"""Fewest and most questions that are tried at once; fewer towards the end, where most would be of no use."""


@dataclass(frozen=True)
class Change:
    """A changed question: the change's name and kind, and the question as it is then put."""

    name: str
    kind: str
    asked: Asked


@dataclass(frozen=True)
class Trial:
    """A question, the changes tried on it so far, and what the model answered to all of them."""

    question: Question
    before: Answers
    changes: tuple[Change, ...] = ()
    after: tuple[Answers, ...] = ()
    attempts: int = 0


Propose = Callable[[Sequence[tuple[Question, int]], Runner], Sequence[Sequence[Change]]]
"""From questions and the number of attempts on each so far to the changes to try next."""
Label = Callable[[Trial], int | None]
"""0 or 1, or None where the trial is of no use."""


def pool_changes(tried: Sequence[tuple[Question, int]], run: Runner) -> list[list[Change]]:
    """Propose one change of the pool at a time, in an order of each question's own."""
    return [drawn_changes(question, attempt, 1) for question, attempt in tried]


def drawn_changes(question: Question, start: int, n: int) -> list[Change]:
    """The pool's changes from `start` on, `n` of them, in an order of the question's own."""
    pool = list(perturbations().values())
    random.Random(question.stem).shuffle(pool)
    return [
        Change(drawn.name, drawn.kind, drawn.apply(question)) for drawn in pool[start : start + n]
    ]


def verified_trials(
    questions: Sequence[Question],
    n: int | None,
    run: Runner,
    *,
    propose: Propose,
    label: Label,
    balanced: bool = True,
    attempts: int = ATTEMPTS,
) -> list[Trial]:
    """At most `n` trials with a label, one a question; None is as many as the questions give.

    They are fewer where the questions are used up. Balanced ones hold no label more than `n / 2` times (rounded up),
    and any prefix holds both labels in about their overall share. The same questions, model and samples give the same
    trials.

    Raises:
        NoItemsError: not one trial has a label.
    """
    wanted = len(questions) if n is None else n
    kept: list[tuple[Trial, int]] = []
    balance = _Balance(-(-wanted // 2)) if balanced else None
    waiting: list[Question | Trial] = [*_without_twins(questions)]
    while waiting and len(kept) < wanted:
        size = min(max(2 * (wanted - len(kept)), _CHUNK[0]), _CHUNK[1])
        chunk, waiting = waiting[:size], waiting[size:]
        revised = []
        for trial in _tried(chunk, run, propose):
            found = label(trial)
            if (
                found is not None
                and len(kept) < wanted
                and (balance is None or balance.takes(trial, found))
            ):
                kept.append((trial, found))
            elif trial.attempts < attempts:
                revised.append(trial)
        # Revised ones come first: what the model answers to the unchanged question is known.
        waiting = [*revised, *waiting]
    if not kept:
        raise NoItemsError(
            f"the model's answers to {len(questions)} questions and their changes could not be read or "
            "did not vary, so that there is no item; take another model or questions of your own (--items)"
        )
    by_label = {str(label): [trial for trial, own in kept if own == label] for label in (0, 1)}
    return [trial for _, trial in interleaved(by_label)]


class _Balance:
    """Which labels are still wanted: half of each in all, and no label ahead by more than one within a change."""

    def __init__(self, quota: int) -> None:
        self._left = {0: quota, 1: quota}
        self._seen: Counter[tuple[str, int]] = Counter()

    def takes(self, trial: Trial, label: int) -> bool:
        """Whether a label is wanted; counts it if so."""
        name = trial.changes[-1].name
        if not self._left[label] or self._seen[name, label] > self._seen[name, 1 - label]:
            return False
        self._left[label] -= 1
        self._seen[name, label] += 1
        return True


def _tried(chunk: Sequence[Question | Trial], run: Runner, propose: Propose) -> list[Trial]:
    """Put the new questions to the model, then the next changes of all whose answers can be read."""
    new = [one for one in chunk if isinstance(one, Question)]
    unchanged = answers_to([question.asked() for question in new], run)
    begun = [one for one in chunk if isinstance(one, Trial)]
    begun += [Trial(question, before) for question, before in zip(new, unchanged, strict=True)]
    useful = [one for one in begun if one.before.is_readable]
    changes = propose([(one.question, one.attempts) for one in useful], run)
    answers = iter(answers_to([change.asked for each in changes for change in each], run))
    return [
        Trial(
            one.question,
            one.before,
            (*one.changes, *each),
            (*one.after, *(next(answers) for _ in each)),
            one.attempts + 1,
        )
        for one, each in zip(useful, changes, strict=True)
    ]


def _without_twins(questions: Sequence[Question]) -> list[Question]:
    """The questions without those whose words were asked before, whatever their case and spacing."""
    firsts: dict[str, Question] = {}
    for question in questions:
        firsts.setdefault(" ".join(question.text.lower().split()), question)
    return list(firsts.values())
