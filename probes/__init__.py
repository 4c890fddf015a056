"""Linear probes on activation matrices, and what their scores must survive: numbers only."""

from sklearn.metrics import balanced_accuracy_score as balanced_accuracy
from sklearn.metrics import brier_score_loss as brier_score
from sklearn.metrics import log_loss

from probes.calibration import isotonic, platt, temperature
from probes.candidates import Candidate
from probes.ceiling import GREEDY_CEILING, beta_auroc, label_ceiling
from probes.class_scores import (
    balanced_accuracy_interval,
    balanced_class_accuracy,
    class_auroc_interval,
    confusion_matrix,
    same_fold_class_auroc,
)
from probes.column_scores import PROBE_KINDS, ProbeKind, probe_of
from probes.controls import Selectivity, control_labels, selectivity, selectivity_reason, text_bins
from probes.degeneracy import Degeneracy, degeneracy
from probes.directions import CosineMatrix, cosine_matrix, ridge_directions
from probes.estimators import DiffMeansProbe, LDAProbe, LinearProbe, LogisticProbe, RidgeProbe
from probes.learning import SampleEfficiency, sample_efficiency, training_sizes
from probes.metrics import (
    cohen_kappa,
    criterion,
    d_prime,
    equal_mass_bins,
    expected_calibration_error,
    same_fold_auroc,
    same_fold_average_precision,
    same_fold_tpr,
    skill,
    within_fold_zscores,
)
from probes.multinomial import MultinomialProbe
from probes.multiplicity import benjamini_hochberg, holm
from probes.nested import NestedResult, nested_probe, nested_ridge
from probes.nested_multinomial import (
    MultinomialResult,
    max_class_statistic_test,
    nested_multinomial,
)
from probes.permutation import (
    MaxStatistic,
    PermutedUnit,
    max_statistic_test,
    whole_group_permutations,
    within_group_permutations,
)
from probes.power import Design, SampleSize, difference_error, difference_power, items_needed
from probes.race import BootstrappedCurve, Race, bootstrapped_curves, departures, percentiles, race
from probes.rate_probe import RidgeRegressionProbe
from probes.rates import criterion_interval, mean_interval, rate_difference, rate_interval
from probes.regression import RegressionResult, nested_ridge_regression
from probes.regression_permutation import max_spearman_test
from probes.regression_scores import (
    r2_interval,
    same_fold_r2,
    same_fold_spearman,
    spearman_interval,
)
from probes.regression_stacking import (
    stacked_predictions,
    stacked_r2_gain,
    stacked_training_predictions,
)
from probes.ridge import ALPHAS
from probes.splits import (
    TRAINING_ONLY,
    check_groups,
    class_skip_reason,
    grouped_folds,
    grouped_folds_of_classes,
    grouped_folds_of_values,
    leave_one_group_out,
    leave_one_stratum_out,
    regrouped_folds,
    skip_reason,
    train_on_one_folds,
)
from probes.stacking import cross_fitted_stack, stacked_gain, stacked_training_scores
from probes.storage import about_probe, load_probe
from probes.sweep import sweep
from probes.sweep_result import SweepResult, SweepRow, SweepStore
from probes.transfer import Domain, TransferEntry, TransferMatrix, domain_reason, transfer_matrix
from probes.uncertainty import (
    FEW_GROUPS,
    HIGH_AUROC,
    Estimand,
    Interval,
    auroc_difference,
    auroc_interval,
)

__all__ = [
    "ALPHAS",
    "FEW_GROUPS",
    "GREEDY_CEILING",
    "HIGH_AUROC",
    "PROBE_KINDS",
    "TRAINING_ONLY",
    "BootstrappedCurve",
    "Candidate",
    "CosineMatrix",
    "Degeneracy",
    "Design",
    "DiffMeansProbe",
    "Domain",
    "Estimand",
    "Interval",
    "LDAProbe",
    "LinearProbe",
    "LogisticProbe",
    "MaxStatistic",
    "MultinomialProbe",
    "MultinomialResult",
    "NestedResult",
    "PermutedUnit",
    "ProbeKind",
    "Race",
    "RegressionResult",
    "RidgeProbe",
    "RidgeRegressionProbe",
    "SampleEfficiency",
    "SampleSize",
    "Selectivity",
    "SweepResult",
    "SweepRow",
    "SweepStore",
    "TransferEntry",
    "TransferMatrix",
    "about_probe",
    "auroc_difference",
    "auroc_interval",
    "balanced_accuracy",
    "balanced_accuracy_interval",
    "balanced_class_accuracy",
    "benjamini_hochberg",
    "beta_auroc",
    "bootstrapped_curves",
    "brier_score",
    "check_groups",
    "class_auroc_interval",
    "class_skip_reason",
    "cohen_kappa",
    "confusion_matrix",
    "control_labels",
    "cosine_matrix",
    "criterion",
    "criterion_interval",
    "cross_fitted_stack",
    "d_prime",
    "degeneracy",
    "departures",
    "difference_error",
    "difference_power",
    "domain_reason",
    "equal_mass_bins",
    "expected_calibration_error",
    "grouped_folds",
    "grouped_folds_of_classes",
    "grouped_folds_of_values",
    "holm",
    "isotonic",
    "items_needed",
    "label_ceiling",
    "leave_one_group_out",
    "leave_one_stratum_out",
    "load_probe",
    "log_loss",
    "max_class_statistic_test",
    "max_spearman_test",
    "max_statistic_test",
    "mean_interval",
    "nested_multinomial",
    "nested_probe",
    "nested_ridge",
    "nested_ridge_regression",
    "percentiles",
    "platt",
    "probe_of",
    "r2_interval",
    "race",
    "rate_difference",
    "rate_interval",
    "regrouped_folds",
    "ridge_directions",
    "same_fold_auroc",
    "same_fold_average_precision",
    "same_fold_class_auroc",
    "same_fold_r2",
    "same_fold_spearman",
    "same_fold_tpr",
    "sample_efficiency",
    "selectivity",
    "selectivity_reason",
    "skill",
    "skip_reason",
    "spearman_interval",
    "stacked_gain",
    "stacked_predictions",
    "stacked_r2_gain",
    "stacked_training_predictions",
    "stacked_training_scores",
    "sweep",
    "temperature",
    "text_bins",
    "train_on_one_folds",
    "training_sizes",
    "transfer_matrix",
    "whole_group_permutations",
    "within_fold_zscores",
    "within_group_permutations",
]
