"""What the model answers to a question as it is put, over the samples of a run, and whether two answers differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.tasks.base import Judgment
from experiments.tasks.counterfactual.pool import ANSWER_TOKENS, Asked
from experiments.tasks.runner import Runner
from hooks import Completion


@dataclass(frozen=True)
class Answers:
    """The answers to one prompt: the option that each of `k` completions chooses, None (with a reason) where none."""

    completions: tuple[Completion, ...]
    options: tuple[str | None, ...]
    reasons: tuple[str, ...]

    @property
    def usual(self) -> str | None:
        """The option of more than half of the samples, None where no option has so many."""
        option, count = Counter(self.options).most_common(1)[0]
        return option if count > len(self.options) / 2 else None

    @property
    def is_readable(self) -> bool:
        """Whether at least half of the samples choose an option."""
        return 2 * sum(option is not None for option in self.options) >= len(self.options)

    @property
    def why_unusual(self) -> str:
        """Why there is no usual option."""
        return next((reason for reason in self.reasons if reason), "no option in most samples")


def answers_to(asked: Sequence[Asked], run: Runner) -> list[Answers]:
    """Put every question to the model; equal ones are run once. In the order of `asked`."""
    prompts = [one.prompt(f"asked-{i}") for i, one in enumerate(asked)]
    settled = [one.is_settled for one in asked]
    found = run.complete(prompts, max_new_tokens=ANSWER_TOKENS, decided=settled)
    return [_read(one, completions) for one, completions in zip(asked, found, strict=True)]


def _read(asked: Asked, completions: tuple[Completion, ...]) -> Answers:
    read = [asked.choice(completion.text) for completion in completions]
    return Answers(completions, tuple(o for o, _ in read), tuple(reason for _, reason in read))


def flips(before: Answers, after: Answers) -> tuple[Judgment, ...]:
    """One judgment a changed answer: does its option differ from the usual one of the unchanged question?"""
    if before.usual is None:
        reason = f"unchanged question: {before.why_unusual}"
        return tuple(Judgment(None, "unreadable", reason=reason) for _ in after.options)
    return tuple(
        _differ((before.usual, ""), one) for one in zip(after.options, after.reasons, strict=True)
    )


def flips_of_pairs(before: Answers, after: Answers) -> tuple[Judgment, ...]:
    """One judgment a pair of an unchanged and a changed answer, `k` times `k` of them: do the options differ?"""
    return tuple(
        _differ(first, second)
        for first in zip(before.options, before.reasons, strict=True)
        for second in zip(after.options, after.reasons, strict=True)
    )


def _differ(before: tuple[str | None, str], after: tuple[str | None, str]) -> Judgment:
    """`before` and `after` are an option and the reason that there is none."""
    if before[0] is None:
        return Judgment(None, "unreadable", reason=f"unchanged question: {before[1]}")
    if after[0] is None:
        return Judgment(None, "unreadable", reason=f"changed question: {after[1]}")
    flipped = before[0] != after[0]
    return Judgment(int(flipped), "flip" if flipped else "same")


def outcome(judgments: Sequence[Judgment]) -> int | None:
    """What most of the readable judgments say; None where none is readable or half say each."""
    read = [judgment.outcome for judgment in judgments if judgment.outcome is not None]
    return None if 2 * sum(read) == len(read) else int(2 * sum(read) > len(read))
