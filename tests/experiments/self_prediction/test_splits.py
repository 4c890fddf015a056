"""Parts that share nothing."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.self_prediction.labeled import Labeled, labeled_of
from experiments.self_prediction.splits import Parts, TooFewError, split
from tests.experiments.self_prediction.planted import labeled_items


def all_parts(parts: Parts) -> list[Labeled]:
    held_out = [] if parts.other_templates is None else [parts.other_templates]
    return [parts.train, parts.validation, parts.test, *held_out]


def test_every_item_is_in_one_part_and_every_group_in_one() -> None:
    labeled = labeled_items()
    parts = all_parts(split(labeled))
    assert len(parts) == 4
    assert sorted(id for part in parts for id in part.ids) == sorted(labeled.ids)
    groups = [set(part.groups) for part in parts]
    assert sum(map(len, groups)) == len(set.union(*groups))
    truth = dict(zip(labeled.ids, labeled.outcome, strict=True))
    for part in parts:
        assert [truth[id] for id in part.ids] == part.outcome.tolist()


def test_the_held_out_stratum_is_in_no_other_part() -> None:
    labeled = labeled_items(strata=("a", "b", "c", "a"))
    named = split(labeled, held_out="c")
    assert named.other_templates is not None
    assert set(named.other_templates.strata) == {"c"}
    assert not any("c" in part.strata for part in (named.train, named.validation, named.test))
    smallest = split(labeled)
    assert smallest.other_templates is not None
    assert set(smallest.other_templates.strata) in ({"b"}, {"c"})
    assert split(labeled, held_out=None).other_templates is None


def test_a_group_that_reaches_into_the_stratum_is_learned_from_nowhere() -> None:
    labeled = labeled_items()
    first = labeled.items[0]
    moved = Labeled(
        labeled.task,
        (type(first)(**{**vars(first), "stratum": "c"}), *labeled.items[1:]),
        labeled.outcome,
    )
    parts = split(moved, held_out="c")
    assert first.group not in {*parts.train.groups, *parts.validation.groups, *parts.test.groups}


def test_another_validation_seed_leaves_the_test_alone() -> None:
    labeled = labeled_items()
    first, second = (split(labeled, validation_seed=seed) for seed in (0, 1))
    assert first.test.ids == second.test.ids
    assert first.validation.ids != second.validation.ids
    assert split(labeled, seed=1).test.ids != first.test.ids


def test_too_few_of_a_class_is_said_in_one_line() -> None:
    labeled = labeled_items()
    few = labeled.relabeled(np.arange(len(labeled)) < 9)
    with pytest.raises(TooFewError, match=r"9 of task 'parity' have outcome 1, at least 10"):
        split(few)
    with pytest.raises(ValueError, match=r"no stratum 'z'; it has a, b, c"):
        split(labeled, held_out="z")


def test_labeled_items_are_checked() -> None:
    labeled = labeled_items(4, 2)
    with pytest.raises(ValueError, match="give one an item"):
        Labeled(labeled.task, labeled.items, labeled.outcome[:-1])
    with pytest.raises(ValueError, match="other values than 0 and 1"):
        labeled.relabeled(np.full(len(labeled), 2))
    with pytest.raises(ValueError, match="stands in both parts"):
        labeled.joined(labeled.take([3]))
    unscored = [1, None, 0, None, 1, 1, 0, 0]
    kept = labeled_of(labeled.task, labeled.items, unscored)
    assert kept.ids == [labeled.ids[i] for i in (0, 2, 4, 5, 6, 7)]
    assert kept.outcome.tolist() == [1, 0, 1, 1, 0, 0]
