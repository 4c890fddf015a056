"""Linear probes on activation matrices, and what their scores must survive: numbers only."""

from sklearn.metrics import balanced_accuracy_score as balanced_accuracy
from sklearn.metrics import brier_score_loss as brier_score
from sklearn.metrics import cohen_kappa_score as cohen_kappa
from sklearn.metrics import log_loss

from probes.calibration import platt
from probes.estimators import DiffMeansProbe, LDAProbe, LogisticProbe, RidgeProbe
from probes.metrics import (
    criterion,
    d_prime,
    equal_mass_bins,
    expected_calibration_error,
    same_fold_auroc,
    same_fold_average_precision,
    skill,
    within_fold_zscores,
)
from probes.multiplicity import benjamini_hochberg, holm
from probes.nested import Candidate, NestedResult, nested_ridge
from probes.permutation import (
    MaxStatistic,
    PermutedUnit,
    max_statistic_test,
    whole_group_permutations,
    within_group_permutations,
)
from probes.power import Design, SampleSize, difference_error, difference_power, items_needed
from probes.ridge import ALPHAS
from probes.splits import check_groups, grouped_folds, regrouped_folds, skip_reason
from probes.stacking import cross_fitted_stack, stacked_gain, stacked_training_scores
from probes.sweep import SweepResult, sweep
from probes.uncertainty import (
    FEW_GROUPS,
    HIGH_AUROC,
    Estimand,
    Interval,
    auroc_difference,
    auroc_interval,
    criterion_interval,
    rate_difference,
    rate_interval,
)

__all__ = [
    "ALPHAS",
    "FEW_GROUPS",
    "HIGH_AUROC",
    "Candidate",
    "Design",
    "DiffMeansProbe",
    "Estimand",
    "Interval",
    "LDAProbe",
    "LogisticProbe",
    "MaxStatistic",
    "NestedResult",
    "PermutedUnit",
    "RidgeProbe",
    "SampleSize",
    "SweepResult",
    "auroc_difference",
    "auroc_interval",
    "balanced_accuracy",
    "benjamini_hochberg",
    "brier_score",
    "check_groups",
    "cohen_kappa",
    "criterion",
    "criterion_interval",
    "cross_fitted_stack",
    "d_prime",
    "difference_error",
    "difference_power",
    "equal_mass_bins",
    "expected_calibration_error",
    "grouped_folds",
    "holm",
    "items_needed",
    "log_loss",
    "max_statistic_test",
    "nested_ridge",
    "platt",
    "rate_difference",
    "rate_interval",
    "regrouped_folds",
    "same_fold_auroc",
    "same_fold_average_precision",
    "skill",
    "skip_reason",
    "stacked_gain",
    "stacked_training_scores",
    "sweep",
    "whole_group_permutations",
    "within_fold_zscores",
    "within_group_permutations",
]
