"""Records are joined by id, never by order, and every predictor sees the same items and folds."""

import numpy as np
import pytest
import torch

from activations_cache import ActivationsCache
from experiments.behavior import Behavior
from experiments.elicitation import Questions, SelfPrediction
from experiments.predictors import Fitting, transferred_scores, verbal_scores
from experiments.task_data import TaskData
from experiments.words import words_result
from hooks import Activations, CaptureSpec
from probes import LogisticProbe, same_fold_auroc
from tests.experiments.parity import ParityTask

WIDTH = 8
TASK = ParityTask()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TaskData:
    """The outcome planted along one direction in layer 1 of both contexts, everything stored in another order."""
    rng = np.random.default_rng(0)
    items = TASK.items()
    outcome = {item.id: int(rng.integers(2)) for item in items}
    folder = tmp_path_factory.mktemp("caches")

    def cache(name: str, ids: list[str], positions: tuple[str, ...]) -> ActivationsCache:
        spec = CaptureSpec(layers=(0, 1), positions=positions)
        shuffled = [ids[i] for i in rng.permutation(len(ids))]
        states = rng.normal(size=(len(ids), 2, len(positions), WIDTH))
        planted = [outcome[i.split("/")[0]] for i in shuffled]
        states[:, 1, -1, 3] += 8 * np.array(planted)
        made = ActivationsCache.create(
            folder / name, fingerprint={"n_layers": 2}, spec=spec, dtype="float32"
        )
        sites = {"resid_post": torch.tensor(states, dtype=torch.float32)}
        made.append(Activations(tuple(shuffled), sites, (0, 1), positions))
        return made

    reports = [
        SelfPrediction(
            item=item.id,
            task="parity",
            elicitation=e.name,
            form="options",
            framing="self",
            paraphrase=e.paraphrase,
            order=e.order,
            log_odds=float(outcome[item.id] + 0.01 * rng.normal()),
            menu_mass=0.5,
            answer="A" if e is TASK.elicitations[0] else None,
            parsed=_parsed(i, outcome[item.id]) if e is TASK.elicitations[0] else None,
            reason="" if i % 4 else "no option named",
        )
        for i, item in enumerate(items)
        for e in TASK.elicitations
    ]
    behavior = [
        Behavior(item.id, "parity", ("x",), (1,), ("even",), (outcome[item.id],), {}, {}, 1.0,
                 outcome[item.id], "")
        for item in items
    ]  # fmt: skip
    for rows in (reports, behavior):
        rng.shuffle(rows)
    slots = [f"{item.id}/{e.name}" for item in items for e in TASK.elicitations]
    return TaskData.join(
        TASK,
        items,
        behavior,
        reports,
        Questions.of(TASK, 4),
        cache("task", [item.id for item in items], ("instruction_last", "prompt_last")),
        cache("reports", slots, ("quote_last", "prompt_last")),
        CaptureSpec(positions=("instruction_last", "prompt_last")),
    )


def _parsed(i: int, outcome: int) -> int | None:
    """Every fourth answer cannot be parsed; of the rest every third is wrong."""
    return None if i % 4 == 0 else (1 - outcome if i % 3 == 0 else outcome)


def auroc(data: TaskData, scores: np.ndarray, folds: np.ndarray) -> float:
    return float(
        np.mean([same_fold_auroc(data.outcome, s, f) for s, f in zip(scores, folds, strict=True)])
    )


def test_planted_outcomes_are_found_in_whatever_order_they_are_stored(data: TaskData) -> None:
    predictions = Fitting(5, 5, 0).predict(data, data.groups, lambda steps: None)
    rows = predictions.rows()
    for name in ("probe", "report_probe", "verbal", "supervised_words"):
        assert auroc(data, rows[name].scores, predictions.folds) > 0.97, name
    assert predictions.probe.chosen[0] == ("resid_post", 1, "prompt_last")
    assert predictions.report.chosen[0][1] == 1
    moved = transferred_scores(data, predictions.probe)
    assert auroc(data, moved.scores, predictions.folds) > 0.97
    assert auroc(data, rows["text"].scores, predictions.folds) < 0.75
    assert {name for name, row in rows.items() if row.estimand == "fixed"} == {"verbal"}


def test_training_scores_come_from_models_that_saw_neither_fold(data: TaskData) -> None:
    predictions = Fitting(5, 5, 0).predict(data, data.groups, lambda steps: None)
    folds, words = predictions.folds[1], data.log_odds.T
    kept = ~np.isin(folds, (0, 3))
    model = LogisticProbe(C=1.0).fit(words[kept], data.outcome[kept])
    found = predictions.supervised_words.training
    assert found is not None
    rows = folds == 3
    np.testing.assert_allclose(found[1, 0, rows], model.decision_function(words[rows]))
    assert (found[1, 0, folds == 0] == 0).all()


def test_trap_19_no_group_straddles_a_fold_of_the_run(data: TaskData) -> None:
    predictions = Fitting(5, 5, 0).predict(data, data.groups, lambda steps: None)
    for folds in predictions.folds:
        for group in set(data.groups):
            assert len(set(folds[data.groups == group])) == 1


def test_words_are_the_mean_of_within_fold_scores(data: TaskData) -> None:
    folds = np.arange(len(data.items))[None] % 5
    expected = np.zeros(len(data.items))
    for fold in range(5):
        rows = folds[0] == fold
        for odds in data.log_odds[:, rows]:
            expected[rows] += (odds - odds.mean()) / odds.std() / len(data.elicitations)
    np.testing.assert_allclose(verbal_scores(data, folds)[0], expected, atol=1e-9)


def test_trap_22_unparsed_answers_are_wrong_when_strict_and_left_out_when_lenient(
    data: TaskData,
) -> None:
    result = words_result(data, np.arange(len(data.items))[None] % 5)
    n = len(data.items)
    readable = [i for i in range(n) if i % 4]
    right = [i for i in readable if i % 3]
    assert result["parse_rate"] == pytest.approx(len(readable) / n, abs=1e-6)
    assert result["strict"] == pytest.approx(len(right) / n, abs=1e-6)
    assert result["lenient"] == pytest.approx(len(right) / len(readable), abs=1e-6)
    base = data.outcome.mean()
    assert result["skill"] == pytest.approx(len(right) / n - max(base, 1 - base), abs=1e-6)
    assert result["unscored"] == {"no option named": n - len(readable)}
