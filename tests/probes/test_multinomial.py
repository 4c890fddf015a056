from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.metrics import confusion_matrix as sklearn_confusion
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from probes import (
    Candidate,
    LogisticProbe,
    MultinomialProbe,
    balanced_class_accuracy,
    check_groups,
    class_auroc_interval,
    class_skip_reason,
    confusion_matrix,
    grouped_folds_of_classes,
    max_class_statistic_test,
    nested_multinomial,
    same_fold_auroc,
    same_fold_class_auroc,
)
from probes.permutation import handed_on
from probes.simulation import clustered_normal

GROUPS = np.repeat(np.arange(50), 3)
NAMES = np.array(["comply", "partial", "refuse"])


def planted(seed=0, n_features=8, strength=0.8, icc=0.3):
    """Three classes that cluster in groups; every class has a direction of its own."""
    rng = np.random.default_rng(seed)
    codes = clustered_normal(rng, GROUPS, 3, icc).argmax(axis=1)
    X = clustered_normal(rng, GROUPS, n_features, icc)
    return X + strength * rng.normal(size=(3, n_features))[codes], codes


@parametrize_with_checks([MultinomialProbe()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probe_is_scikit_learns_with_directions_in_raw_space(n_classes):
    X, codes = planted()
    X = X * np.geomspace(0.1, 1e3, 8) + 50
    y = NAMES[codes % n_classes]
    Z = StandardScaler().fit_transform(X)
    reference = LogisticRegression(C=0.1, tol=1e-10, max_iter=5000).fit(Z, y)
    probe = MultinomialProbe(C=0.1, tol=1e-9).fit(X, y)
    assert probe.converged_
    assert probe.directions_.shape == (n_classes, 8)
    np.testing.assert_allclose(probe.predict_proba(X), reference.predict_proba(Z), atol=1e-5)
    np.testing.assert_allclose(
        probe.decision_function(X), reference.decision_function(Z), atol=1e-4
    )
    scores = X @ probe.directions_.T + probe.intercepts_
    assert (probe.classes_[scores.argmax(axis=1)] == probe.predict(X)).all()
    if n_classes == 2:
        binary = LogisticProbe(C=0.1, tol=1e-9).fit(X, y)
        np.testing.assert_allclose(
            probe.decision_function(X), binary.decision_function(X), atol=1e-4
        )


def test_failure_to_converge_is_recorded_without_a_warning():
    X, codes = planted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not MultinomialProbe(C=1e5, max_iter=2).fit(X, codes).converged_


@pytest.mark.parametrize("digits", [1, 9])
def test_one_fold_is_scikit_learns_one_vs_one(digits):
    X, codes = planted()
    probabilities = MultinomialProbe(C=0.001).fit(X, codes).predict_proba(X).round(digits)
    probabilities[:, 2] = 1 - probabilities[:, 0] - probabilities[:, 1]
    probabilities = probabilities.clip(0)
    found = same_fold_class_auroc(codes, probabilities, np.zeros(150))
    expected = roc_auc_score(codes, probabilities, multi_class="ovo")
    assert found == pytest.approx(expected, abs=1e-9)


def test_only_pairs_of_one_fold_count():
    rng = np.random.default_rng(0)
    codes, folds = rng.integers(0, 3, 200), rng.integers(0, 4, 200)
    scores = rng.normal(size=(200, 3)) + np.eye(3)[codes]
    shifted = scores + 10 * rng.normal(size=(4, 3))[folds]
    found = same_fold_class_auroc(codes, shifted, folds)
    assert found == pytest.approx(same_fold_class_auroc(codes, scores, folds), abs=1e-12)
    of_pairs = []
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        rows = np.isin(codes, (i, j))
        of_pairs += [
            same_fold_auroc(codes[rows] == one, scores[rows, one], folds[rows]) for one in (i, j)
        ]
    assert found == pytest.approx(np.mean(of_pairs), abs=1e-12)


def test_columns_are_scored_by_their_own_labels_and_a_missing_pair_is_left_out():
    rng = np.random.default_rng(0)
    codes, folds = rng.integers(0, 3, (60, 4)), np.arange(60) % 3
    scores = rng.normal(size=(60, 4, 3)).round(1)
    codes[:, 3] = np.where(codes[:, 3] == 2, 1, codes[:, 3])
    together = same_fold_class_auroc(codes, scores, folds)
    for column in range(4):
        alone = same_fold_class_auroc(codes[:, column], scores[:, column], folds)
        assert together[column] == pytest.approx(float(alone), abs=1e-12)
    two = same_fold_auroc(codes[:, 3], scores[:, 3, 1], folds) / 2
    two += same_fold_auroc(1 - codes[:, 3], scores[:, 3, 0], folds) / 2
    assert together[3] == pytest.approx(float(two), abs=1e-12)
    assert np.isnan(same_fold_class_auroc([0, 0, 1, 1], np.eye(2)[[0, 1, 0, 1]], [0, 0, 1, 1]))
    assert same_fold_class_auroc([0, 1], np.eye(2)[[1, 0]], [0, 0]) == 0


def test_accuracy_and_confusion_are_scikit_learns():
    X, codes = planted(strength=0.4)
    scores = np.stack(
        [MultinomialProbe().fit(X[:n], codes[:n]).predict_proba(X) for n in (80, 150)]
    )
    predicted = scores.argmax(axis=2)
    expected = balanced_accuracy_score(codes, predicted[0])
    assert balanced_class_accuracy(codes, scores[0]) == pytest.approx(expected, abs=1e-12)
    expected = (sklearn_confusion(codes, predicted[0]) + sklearn_confusion(codes, predicted[1])) / 2
    np.testing.assert_allclose(confusion_matrix(codes, scores), expected)


def slow_nested(cells, codes, folds, grid):
    """The same selection as loops over `MultinomialProbe`; grid weakest first."""

    def fit(c, C, out):
        test = np.isin(folds, out)
        return MultinomialProbe(C=C, tol=1e-8).fit(cells[c][~test], codes[~test])

    scores, chosen = np.empty((len(codes), 3)), []
    for o in range(3):
        best = (-1.0, 0, 0)
        for p, C in enumerate(grid):
            for c, X in enumerate(cells):
                inner = np.zeros((len(codes), 3))
                for i in {0, 1, 2} - {o}:
                    inner[folds == i] = fit(c, C, (o, i)).predict_proba(X[folds == i])
                rows = folds != o
                auroc = same_fold_class_auroc(codes[rows], inner[rows], folds[rows])
                best = max(best, (float(auroc), p, -c))
        _, p, minus_c = best
        chosen.append((-minus_c, grid[p]))
        scores[folds == o] = fit(-minus_c, grid[p], (o,)).predict_proba(cells[-minus_c][folds == o])
    return chosen, scores


def test_equals_nested_loops_over_the_probe():
    X, codes = planted(strength=0.5)
    cells = [X[:, ::-1] + np.random.default_rng(1).normal(size=X.shape), X]
    candidates = [Candidate("noisy", (cells[0],)), Candidate.lazy("planted", lambda: cells[1])]
    steps = []
    result = nested_multinomial(
        candidates,
        NAMES[codes],
        GROUPS,
        penalties=(0.001, 1.0),
        n_folds=3,
        n_regroupings=2,
        progress=lambda *step: steps.append(step),
    )
    assert result.classes.tolist() == NAMES.tolist()
    assert result.penalties == (1.0, 0.001)
    assert steps == [(done, 24) for done in range(1, 25)]
    assert result.n_unconverged == 0
    for r, folds in enumerate(result.folds):
        check_groups(folds, GROUPS)
        chosen, scores = slow_nested(cells, codes, folds, result.penalties)
        ours = zip(result.selected_candidate[r], result.selected_penalty[r], strict=True)
        assert list(ours) == chosen
        np.testing.assert_allclose(result.probabilities[r], scores, atol=1e-2)
    auroc = result.auroc
    expected = [
        same_fold_class_auroc(codes, p, f)
        for p, f in zip(result.probabilities, result.folds, strict=True)
    ]
    assert auroc.estimate == pytest.approx(np.mean(expected), abs=2e-3)
    assert auroc.low < auroc.estimate < auroc.high
    assert auroc.approximate
    assert result.balanced_accuracy.low > 1 / 3
    np.testing.assert_allclose(result.confusion.sum(axis=1), np.bincount(codes))
    assert result.modal[0] == "planted"


def test_selected_score_on_noise_is_one_half():
    scores = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        _, codes = planted(seed)
        cells = [Candidate(str(i), (clustered_normal(rng, GROUPS, 4, 0.3),)) for i in range(2)]
        result = nested_multinomial(
            cells, codes, GROUPS, penalties=(0.001, 0.1), n_folds=3, n_regroupings=1, seed=seed
        )
        scores.append(float(same_fold_class_auroc(codes, result.probabilities[0], result.folds[0])))
    # Standard deviation of one about 0.06, of the mean 0.017.
    assert np.mean(scores) == pytest.approx(0.5, abs=0.055)


def test_interval_of_fixed_scores_covers():
    """Truth by one huge sample; of 100 at 95%, fewer than 88 are drawn once in 300."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(3, 3))

    def draw(n_groups):
        groups = np.repeat(np.arange(n_groups), 3)
        codes = clustered_normal(rng, groups, 3, 0.3).argmax(axis=1)
        scores = 0.7 * directions[codes] + clustered_normal(rng, groups, 3, 0.3)
        return codes, scores, np.zeros(len(codes)), groups

    truth = float(same_fold_class_auroc(*draw(20_000)[:3]))
    covered = 0
    for _ in range(100):
        codes, scores, folds, groups = draw(40)
        one = class_auroc_interval(codes, scores[None], folds[None], groups, estimand="fixed")
        covered += one.low <= truth <= one.high
    assert covered >= 88


def test_permutation_test_finds_a_signal_and_hands_on_whole_groups():
    X, codes = planted()
    folds = grouped_folds_of_classes(codes, GROUPS)
    noise = Candidate("noise", (np.random.default_rng(1).normal(size=X.shape),))
    result = max_class_statistic_test(
        [noise, Candidate("planted", (X,))], NAMES[codes], GROUPS, folds, alphas=(1.0,), seed=4
    )
    assert result.p_value == 1 / 200
    assert result.observed.argmax() == 1
    assert max_class_statistic_test([noise], codes, GROUPS, folds).p_value > 0.02
    permuted = handed_on(codes, GROUPS, 199, 4)[:, 7]
    scores = np.empty((150, 3))
    for fold in range(5):
        test = folds == fold
        scaler = StandardScaler().fit(X[~test])
        Z = scaler.transform(X)
        for k in range(3):
            targets = np.where(permuted[~test] == k, 1.0, -1.0)
            weights = np.linalg.solve(
                Z[~test].T @ Z[~test] + 8 * np.eye(8), Z[~test].T @ (targets - targets.mean())
            )
            scores[test, k] = Z[test] @ weights + targets.mean()
    expected = same_fold_class_auroc(permuted, scores, folds)
    assert result.null[7, 1, 0] == pytest.approx(float(expected), abs=1e-3)


@pytest.mark.parametrize(
    ("y", "groups", "reason"),
    [
        (np.zeros(60, int), np.arange(60), "no second class among 60"),
        (np.arange(60) % 20, np.arange(60), "only 3 items of class 0; at least 10"),
        (np.where(np.arange(60) < 15, 1, 0), np.arange(60) // 15, "class 1 lie in one group"),
        (np.arange(60) % 3, np.arange(60) // 20, "only 3 groups for 5 folds"),
        (np.arange(60) % 3, np.arange(60), None),
    ],
)
def test_classes_that_cannot_be_told_apart_have_a_reason(y, groups, reason):
    found = class_skip_reason(y, groups)
    assert found is None if reason is None else reason in found
    if reason is not None:
        with pytest.raises(ValueError, match="cannot make folds"):
            nested_multinomial([Candidate("a", (np.zeros((60, 2)),))], y, groups)


def test_bad_features_name_the_candidate():
    X, codes = planted()
    bad = Candidate("bad", (X * np.nan,))
    with pytest.raises(ValueError, match="candidate 'bad': features: nan or inf"):
        nested_multinomial([bad], codes, GROUPS)
    with pytest.raises(ValueError, match=r"y\[0\] is nan"):
        nested_multinomial([bad], np.full(150, np.nan), GROUPS)


def test_training_sets_of_one_class_say_that_class_and_no_more():
    """Two groups hold the second class: a training set without both folds has none of it."""
    groups = np.repeat(np.arange(12), 6)
    y = np.where(groups < 2, "refuse", "comply")
    X = np.random.default_rng(0).normal(size=(72, 3))
    found = nested_multinomial([Candidate("a", (X,))], y, groups, n_folds=3, n_regroupings=2)
    np.testing.assert_allclose(found.probabilities.sum(axis=2), 1)
    assert np.isfinite(found.curve).all()
