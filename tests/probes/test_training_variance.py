from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit

from probes import Candidate, auroc_difference, auroc_interval, nested_ridge, same_fold_auroc
from probes.same_fold_pairs import Variance
from probes.simulation import clustered_data, clustered_normal, group_sizes
from probes.training_variance import left_out_aurocs, procedure_variance


def test_a_fold_is_left_out_of_the_pairs_and_of_the_models():
    rng = np.random.default_rng(0)
    y, folds = rng.integers(0, 2, 60), np.stack([rng.permutation(60) % 3 for _ in range(2)])
    training_scores = rng.normal(size=(2, 3, 60))
    found = left_out_aurocs(y, training_scores, folds)
    kept = folds[1] != 2
    expected = same_fold_auroc(y[kept], training_scores[1, 2, kept], folds[1][kept])
    assert found[1, 2] == expected
    words = rng.normal(size=60)
    for given in (words, np.stack([words] * 2)):
        assert left_out_aurocs(y, given, folds)[0, 1] == same_fold_auroc(
            y[folds[0] != 1], words[folds[0] != 1], folds[0][folds[0] != 1]
        )


def test_shapes_and_folds_are_checked():
    y, folds = np.arange(60) % 2, np.arange(60)[None] % 5
    with pytest.raises(ValueError, match=r"training_scores: shape \(1, 4, 60\); needed"):
        left_out_aurocs(y, np.zeros((1, 4, 60)), folds)
    with pytest.raises(ValueError, match="3 at least"):
        left_out_aurocs(y, np.zeros((1, 2, 60)), folds % 2)
    with pytest.raises(ValueError, match="3 at least"):
        left_out_aurocs(y, np.zeros((1, 6, 60)), folds + 1)


@pytest.mark.parametrize("n_folds", [3, 5, 10])
def test_shares_of_items_and_of_pairs_are_told_apart(n_folds):
    """Scores that are a sum over folds, and over pairs (tested fold, fold trained on), at a scale of their own."""
    items_share, pairs_share, n_draws = 2.0, 3.0, 4000
    rng = np.random.default_rng(0)
    folds = np.arange(n_folds)
    items = rng.normal(size=(n_draws, n_folds))
    items *= np.sqrt(items_share * (1 + 1 / (n_folds - 1)) * n_folds)
    pairs = rng.normal(size=(n_draws, n_folds, n_folds))
    pairs = (pairs + pairs.mT) / 2 * (1 - np.eye(n_folds)) * np.sqrt(pairs_share * n_folds)

    def score(kept):
        of_tested = pairs[:, kept][:, :, kept].sum(2) / np.sqrt(len(kept) - 1)
        return (items[:, kept] + of_tested).mean(1)

    assert score(folds).var() == pytest.approx(items_share * n_folds / (n_folds - 1) + 3, rel=0.1)
    left_out = np.stack([score(np.delete(folds, fold)) for fold in folds], axis=1)
    delong = Variance(items_share + pairs_share / 2, 30)
    found = [procedure_variance(delong, np.zeros(1), row[None]).value for row in left_out]
    assert np.mean(found) == pytest.approx(score(folds).var(), rel=0.08)


def test_what_varies_between_regroupings_is_averaged_out():
    delong, blocks = Variance(1.0, 30), np.tile([-1.0, 0.0, 1.0], (5, 1))
    alone = procedure_variance(delong, np.zeros(5), blocks).value
    spread = np.array([-0.3, 0.3, -0.3, 0.3, 0.0])
    assert procedure_variance(delong, spread, blocks).value == pytest.approx(
        alone - 0.8 * spread.var(ddof=1)
    )
    assert procedure_variance(delong, 100 * spread, blocks) == (1.0, pytest.approx(1.0, abs=1))


def test_measured_variance_is_the_true_one_with_and_without_signal():
    # 100 simulations know the true width to 7%.
    for auroc in (0.5, 0.95):
        probes, measured, bounded, gaps, measured_gaps = [], [], [], [], []
        for seed in range(100):
            rng = np.random.default_rng(seed)
            groups = group_sizes(rng, 40, 2, 4)
            data = clustered_data(rng, groups, 30, icc=0.3, auroc=auroc)
            words = clustered_normal(rng, groups, 1, 0.3)[:, 0] + data.y
            nested = nested_ridge(
                [Candidate("all", (data.X,))], data.y, groups, alphas=(1.0,), seed=seed
            )
            shared = (nested.folds, groups)
            one = auroc_interval(
                data.y,
                nested.scores,
                *shared,
                estimand="procedure",
                training_scores=nested.training_scores,
            )
            bound = auroc_interval(data.y, nested.scores, *shared, estimand="procedure")
            gap = auroc_difference(
                data.y,
                nested.scores,
                words,
                *shared,
                estimand="procedure",
                training_scores=(nested.training_scores, words),
            )
            probes.append(one.estimate)
            measured.append(logit(one.high) - logit(one.low))
            bounded.append(logit(bound.high) - logit(bound.low))
            gaps.append(gap.estimate)
            measured_gaps.append(gap.high - gap.low)
        for estimates, widths in ((logit(probes), measured), (gaps, measured_gaps)):
            width = 2 * 1.96 * np.std(estimates)
            assert np.mean(widths) == pytest.approx(width, rel=0.2)
        if auroc > 0.9:
            assert np.mean(bounded) > 1.1 * np.mean(measured)


def test_where_a_fold_cannot_be_left_out_the_share_is_bounded():
    y, folds = np.array([1, 0] * 4 + [1] * 8), np.repeat([0, 1, 2, 2], 4)
    folds[:8] = 0
    folds[8:12] = 1
    scores = np.random.default_rng(0).normal(size=16)
    one = auroc_interval(
        y, scores, folds, np.arange(16), estimand="procedure", training_scores=scores
    )
    bounded = auroc_interval(y, scores, folds, np.arange(16), estimand="procedure")
    assert one == bounded
