from __future__ import annotations

import numpy as np
import pytest

from probes import LogisticProbe, sweep

CELLS = [("embed", None, "prompt_last"), *(("resid_post", i, "prompt_last") for i in range(3))]


class ArrayReader:
    def __init__(self, arrays):
        self.arrays = dict(zip(CELLS, arrays, strict=True))

    def cells(self):
        return list(self.arrays)

    def read(self, site, *, layer, position):
        return self.arrays[site, layer, position]


@pytest.fixture
def planted():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 2)
    y = rng.integers(0, 2, 120)
    arrays = rng.normal(size=(4, 120, 40)).astype("f")
    arrays[2] += np.outer(y, rng.normal(size=40)) * 0.6
    return arrays, y, groups


@pytest.mark.parametrize("probe", ["diff_means", "lda", "ridge", "logistic", LogisticProbe(C=1.0)])
def test_planted_layer_stands_out(planted, probe):
    arrays, y, groups = planted
    table = sweep(ArrayReader(arrays), y, groups=groups, probe=probe).to_frame()
    assert table.auroc.argmax() == 2
    assert table.ci_low[2] > 0.7
    assert (table.ci_low < table.auroc).all()
    assert (table.auroc < table.ci_high).all()
    assert table.converged.all()
    assert set(table.n_groups) == {60}
    assert list(table.site) == ["embed", "resid_post", "resid_post", "resid_post"]


def test_non_convergence_is_a_column(planted):
    arrays, y, groups = planted
    stubborn = LogisticProbe(C=1e6, max_iter=1)
    table = sweep(ArrayReader(arrays), y, groups=groups, probe=stubborn).to_frame()
    assert not table.converged.any()
    assert table.auroc.notna().all()


def test_one_class_is_skipped_with_its_reason(planted):
    arrays, _, groups = planted
    table = sweep(ArrayReader(arrays), np.zeros(120, int), groups=groups).to_frame()
    assert len(table) == 4
    assert table.auroc.isna().all()
    assert table.skipped.str.contains("no positive items").all()


def test_bad_input_names_the_fault(planted):
    arrays, y, groups = planted
    with pytest.raises(ValueError, match="choose one of diff_means"):
        sweep(ArrayReader(arrays), y, groups=groups, probe="svm")
    with pytest.raises(ValueError, match="80 labels but cell"):
        sweep(ArrayReader(arrays), y[:80], groups=groups[:80])
    arrays[1, 5, 3] = np.nan
    with pytest.raises(ValueError, match=r"cell \(resid_post, 0, prompt_last\): nan.*item 5"):
        sweep(ArrayReader(arrays), y, groups=groups)
