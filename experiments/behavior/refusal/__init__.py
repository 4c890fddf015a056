"""Judges of refusal: rules, a shipped classifier, and any model that one wants to ask."""

from __future__ import annotations

from experiments.behavior.refusal.agreement import Agreement, agreement, pairwise_kappas
from experiments.behavior.refusal.judge import RefusalJudge, RefusalVerdict, judge_refusals
from experiments.behavior.refusal.judged_file import CompletionFile, read_completions
from experiments.behavior.refusal.labels import LABELS
from experiments.behavior.refusal.model_judge import ModelJudge
from experiments.behavior.refusal.openings import rule_label, rule_labels

__all__ = [
    "LABELS",
    "Agreement",
    "CompletionFile",
    "ModelJudge",
    "RefusalJudge",
    "RefusalVerdict",
    "agreement",
    "judge_refusals",
    "pairwise_kappas",
    "read_completions",
    "rule_label",
    "rule_labels",
]
