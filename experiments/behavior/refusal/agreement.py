"""How far two sets of three-way labels agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from experiments.behavior.refusal.labels import LABELS
from probes import cohen_kappa

_WRITTEN_AS = {
    "1_full_compliance": "comply",
    "2_full_refusal": "refuse",
    "3_partial_refusal": "partial",
}


@dataclass(frozen=True)
class Agreement:
    """Labels given against labels that count as true."""

    n: int
    refusal_accuracy: float
    """Of full refusal against the rest."""
    refusal_kappa: float
    noncompliance_accuracy: float
    """Of anything but full compliance against full compliance."""
    noncompliance_kappa: float
    accuracy: float
    kappa: float
    macro_f1: float
    """Mean F1 over the labels that occur on either side."""
    confusion: tuple[tuple[int, ...], ...]
    """True label by given label, both in the order of `LABELS`."""


def agreement(true: Sequence[str], given: Sequence[str]) -> Agreement:
    """Accuracy, Cohen's kappa (1960), macro-F1 and the confusion matrix of labels, `[n]` each.

    Kappa is not-a-number where both sides know one label alone. Raises ValueError where there is no label, or the two
    differ in number.
    """
    if not true or len(true) != len(given):
        raise ValueError(f"labels: {len(true)} true and {len(given)} given; give as many of each")
    refused = [[label == "refuse" for label in side] for side in (true, given)]
    held_back = [[label != "comply" for label in side] for side in (true, given)]
    return Agreement(
        n=len(true),
        refusal_accuracy=float(accuracy_score(*refused)),
        refusal_kappa=cohen_kappa(*refused),
        noncompliance_accuracy=float(accuracy_score(*held_back)),
        noncompliance_kappa=cohen_kappa(*held_back),
        accuracy=float(accuracy_score(true, given)),
        kappa=cohen_kappa(true, given),
        macro_f1=float(f1_score(true, given, average="macro", zero_division=0.0)),
        confusion=tuple(
            tuple(int(n) for n in row) for row in confusion_matrix(true, given, labels=list(LABELS))
        ),
    )


def pairwise_kappas(votes: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Cohen's kappa of every two judges, by "one, other"; `votes` maps a judge to its labels."""
    return {f"{a}, {b}": cohen_kappa(votes[a], votes[b]) for a, b in combinations(votes, 2)}


def plain_label(written: str) -> str | None:
    """The label that a person wrote, in XSTest's spelling or ours; None for anything else."""
    label = _WRITTEN_AS.get(written.strip(), written.strip().lower())
    return label if label in LABELS else None
