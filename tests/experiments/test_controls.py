"""Controls of a run on made-up records whose truth is known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from activations_cache import ActivationsCache
from experiments.baselines import read_output_side
from experiments.behavior import Behavior
from experiments.config import RunConfig
from experiments.controls.disagreement import peer_results
from experiments.controls.fitted import fitted_controls
from experiments.controls.output_side import output_rows
from experiments.controls.peer import Peer
from experiments.controls.random_weights import random_spec
from experiments.controls.records import ControlRecords
from experiments.controls.rows import Scoring
from experiments.elicitation import Questions, SelfPrediction
from experiments.predictors import Fitting, supervised_word_scores
from experiments.scored import Scored
from experiments.task_data import TaskData
from experiments.tasks import Item
from hooks import Activations, CaptureSpec, NextToken
from probes import regrouped_folds
from tests.conftest import make_tiny_model
from tests.experiments.parity import ParityTask

TASK = ParityTask()
N_GROUPS, SIZE, WIDTH = 150, 2, 6
FITTING = Fitting(5, 5, 0)
POSITIONS = ("mean_instruction", "prompt_last")


class World:
    """Items with records of any kind; `states` are what the model's one probed cell holds."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder = folder
        self.rng = np.random.default_rng(seed)
        self.n = N_GROUPS * SIZE
        self.items = [
            Item(
                f"i{i}", "parity", f"g{i // SIZE}", "all", ({"role": "user", "content": f"x {i}"},)
            )
            for i in range(self.n)
        ]

    def padded(self, *columns: np.ndarray) -> np.ndarray:
        """Columns as features of the width of the model, filled up with noise."""
        noise = self.rng.normal(size=(self.n, WIDTH - len(columns)))
        return np.column_stack([*columns, noise])

    def cache(self, name: str, **sites: np.ndarray) -> ActivationsCache:
        """A cache of one layer whose every position holds the same."""
        spec = CaptureSpec(sites=tuple(sites), layers=(0,), positions=POSITIONS)
        made = ActivationsCache.create(
            self.folder / name, fingerprint={"n_layers": 1}, spec=spec, dtype="float32"
        )
        states = {
            site: torch.tensor(values, dtype=torch.float32)[:, None, None].repeat(1, 1, 2, 1)
            for site, values in sites.items()
        }
        made.append(Activations(tuple(i.id for i in self.items), states, (0,), POSITIONS))
        made.close()
        return made

    def behavior(self, outcome: np.ndarray) -> list[Behavior]:
        return [
            Behavior(
                item.id, "parity", ("x",), (1,), ("x",), (int(y),), {}, {}, float(y), int(y), ""
            )
            for item, y in zip(self.items, outcome, strict=True)
        ]

    def data(self, outcome: np.ndarray, states: np.ndarray, embed: np.ndarray) -> TaskData:
        reports = [
            SelfPrediction(
                item.id, "parity", e.name, "options", "self", e.paraphrase, e.order,
                float(self.rng.normal() + (y if e.order == "ab" else 0)), 0.5, None, None, "",
            )
            for item, y in zip(self.items, outcome, strict=True)
            for e in TASK.elicitations
        ]  # fmt: skip
        cache = self.cache("task", resid_post=states, embed=embed)
        return TaskData.join(
            TASK,
            self.items,
            self.behavior(outcome),
            reports,
            Questions.of(TASK, 4),
            cache,
            cache,
            CaptureSpec(positions=("prompt_last",)),
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def scoring(data: TaskData, states: np.ndarray) -> Scoring:
    from probes import Candidate

    nested = FITTING.nested([Candidate("probe", (states,))], data, data.groups)
    return Scoring(data.outcome, data.groups, nested.folds, Scored.of(nested))


def test_the_probe_may_not_choose_what_is_captured_for_controls(world: World) -> None:
    y = world.rng.integers(2, size=world.n)
    data = world.data(y, world.padded(y), world.padded())
    assert data.cells == (("resid_post", 0, "prompt_last"),)
    assert [candidate.name for candidate in data.task_candidates] == ["resid_post/0/prompt_last"]


def test_an_exclusive_or_of_tokens_is_not_in_the_embedding_layer(world: World) -> None:
    """The probe reads what the layers have computed; the tokens by themselves do not give it away."""
    first, second = world.rng.integers(2, size=(2, world.n))
    y = first ^ second
    states, embed = world.padded(2.0 * y), world.padded(first, second)
    data = world.data(y, states, embed)
    random = world.cache("random", resid_post=world.padded(first, second))
    rows = {
        row.name: row
        for row in fitted_controls(data, ControlRecords({}, random), FITTING, scoring(data, states))
    }
    assert set(rows) == {"embedding_layer", "random_weights", "projected_tfidf"}
    for row in rows.values():
        assert row.interval is not None
        assert abs(row.interval.estimate - 0.5) < 0.1, row.name
        assert row.about["probe_minus"]["ci"][0] > 0.3
        assert row.estimand == "procedure"
    found = rows["embedding_layer"].to_json()
    assert (found["site"], found["layer"], found["position"]) == ("embed", None, "mean_instruction")


def test_tokens_that_decide_are_found_in_the_embedding_layer(world: World) -> None:
    y = world.rng.integers(2, size=world.n)
    data = world.data(y, world.padded(2.0 * y), world.padded(y))
    random = world.cache("random", resid_post=world.padded())
    records = ControlRecords({}, random)
    row = next(fitted_controls(data, records, FITTING, scoring(data, world.padded(y))))
    assert row.interval is not None
    assert row.interval.estimate > 0.95


def verbal(data: TaskData) -> Scored:
    """The model's own words, which know the outcome in half of the elicitations."""
    return Scored.fixed(data.log_odds.mean(axis=0))


def quirks(world: World, *, knows_itself: bool) -> tuple[TaskData, Peer, np.ndarray, Scoring]:
    """Both models do what the item's nature and a quirk of their own say; the peer's states hold its own quirk."""
    nature, quirk, peers_quirk, blur = world.rng.normal(size=(4, world.n))
    outcome = (nature + quirk > 0).astype(int)
    peers_outcome = (nature + peers_quirk > 0).astype(int)
    own = nature + (quirk if knows_itself else blur)
    states = world.padded(own)
    data = world.data(outcome, states, world.padded())
    cache = world.cache("peer", resid_post=world.padded(nature + peers_quirk))
    behavior = {row.item: row for row in world.behavior(peers_outcome)}
    words = {
        (item.id, e.name): value
        for e in data.elicitations
        for item, value in zip(
            world.items, peers_outcome + world.rng.normal(size=world.n), strict=True
        )
    }
    return data, Peer("other", cache, behavior, words), nature, scoring(data, states)


@pytest.mark.parametrize("knows_itself", [False, True])
def test_the_peers_quirks_alone_make_no_self_knowledge(world: World, knows_itself: bool) -> None:
    """METHODS, section 5: self minus peer is large on the disagreement subset with no self-knowledge at all."""
    data, peer, nature, own = quirks(world, knows_itself=knows_itself)
    result, rows = peer_results(data, peer, Scored.fixed(nature), verbal(data), FITTING, own)
    parted = result["disagreement"]
    assert parted["reason"] is None
    agree = np.array([peer.behavior[i].outcome for i in data.ids]) == data.outcome
    assert parted["n_items"] == (~agree).sum()
    assert result["agreement"] == pytest.approx(agree.mean(), abs=1e-6)
    on_subset = parted["rows"]
    assert on_subset["peer_probe"]["auroc"] < 0.2
    assert abs(on_subset["neutral_probe"]["auroc"] - 0.5) < 0.15
    assert on_subset["peer_probe"]["probe_minus"]["ci"][0] > 0.15
    assert parted["beats_peer_and_neutral"] == knows_itself
    assert {row.name for row in rows} >= {
        "peer_probe",
        "neutral_probe",
        "peer_words",
        "peer_behavior",
    }
    # The peer's words tell of the peer: where the two part they are wrong, and this model's own are right.
    assert on_subset["peer_words"]["auroc"] < 0.3
    assert on_subset["peer_words"]["verbal_minus"]["ci"][0] > 0.2
    assert parted["words_beat_peer_and_neutral"]
    assert "verbal_minus" not in on_subset["verbal"]
    assert result["rows"]["peer_words"]["estimand"] == "fixed"
    assert all(row.kind == "peer" for row in rows)


def test_the_peers_behavior_is_a_fixed_score_and_ties_where_it_is_unscored(world: World) -> None:
    data, peer, nature, own = quirks(world, knows_itself=True)
    item = data.ids[0]
    unscored = replace(peer.behavior[item], rate=None, outcome=None)
    peer = replace(peer, behavior={**peer.behavior, item: unscored})
    result, _ = peer_results(data, peer, Scored.fixed(nature), verbal(data), FITTING, own)
    assert result["unscored"] == 1
    did = np.array([0.5, *(peer.behavior[i].outcome for i in data.ids[1:])], dtype=float)
    pairs = [
        (did[i] > did[j]) + 0.5 * (did[i] == did[j])
        for folds in own.folds[:1]
        for i in np.flatnonzero(data.outcome == 1)
        for j in np.flatnonzero((data.outcome == 0) & (folds == folds[i]))
    ]
    row = result["rows"]["peer_behavior"]
    assert row["estimand"] == "fixed"
    assert row["auroc"] == pytest.approx(np.mean(pairs), abs=0.01)


def test_words_that_say_what_the_text_says_beat_no_neutral_reader(world: World) -> None:
    data, peer, nature, own = quirks(world, knows_itself=True)
    read = Scored.fixed(nature)
    result, _ = peer_results(data, peer, read, Scored.fixed(nature + 0.0), FITTING, own)
    assert result["disagreement"]["words_beat_peer_and_neutral"] is False
    assert result["rows"]["neutral_probe"]["verbal_minus"]["estimate"] == 0


def test_too_few_disagreements_are_named(world: World) -> None:
    data, peer, nature, own = quirks(world, knows_itself=True)
    same = {row.item: row for row in world.behavior(data.outcome)}
    flipped = replace(same[data.ids[0]], outcome=1 - int(data.outcome[0]))
    peer = replace(peer, behavior={**same, data.ids[0]: flipped})
    result, rows = peer_results(data, peer, Scored.fixed(nature), verbal(data), FITTING, own)
    assert result["disagreement"]["n_items"] == 1
    assert "items among 1" in result["disagreement"]["reason"]
    assert result["disagreement"]["beats_peer_and_neutral"] is None
    assert all(row["auroc"] is None for row in result["disagreement"]["rows"].values())
    assert [row.to_table()["n_items"] for row in rows][-1] == 1


@pytest.mark.parametrize("has_openings", [True, False])
def test_the_output_side_is_scored_number_by_number_and_together(
    world: World, has_openings: bool
) -> None:
    y = world.rng.integers(2, size=world.n)
    data = world.data(y, world.padded(y), world.padded())
    doubt = 3 * y + world.rng.normal(size=world.n)
    tokens = {
        item: NextToken(item, 0.5, float(entropy), 1.0, 0.0 if has_openings else None)
        for item, entropy in zip(data.ids, doubt, strict=True)
    }
    rows = {
        row.name: row for row in output_rows(data, tokens, FITTING, scoring(data, world.padded()))
    }
    assert rows["max_probability"].interval is not None
    assert rows["max_probability"].interval.estimate == 0.5
    assert rows["max_probability"].estimand == "fixed"
    assert rows["negative_entropy"].interval is not None
    assert rows["negative_entropy"].interval.estimate < 0.1  # certainty goes with outcome 0 here
    assert rows["output_side"].interval is not None
    assert rows["output_side"].interval.estimate > 0.9  # a trained row finds the sign
    assert rows["output_side"].estimand == "procedure"
    assert (rows["opening_log_odds"].reason is None) == has_openings
    agreement = rows["sample_agreement"].to_json()
    assert (agreement["auroc"], agreement["reason"]) == (
        None,
        "the labels are made of the same samples",
    )


def test_supervised_words_are_a_logistic_regression_on_the_log_odds(world: World) -> None:
    y = world.rng.integers(2, size=world.n)
    data = world.data(y, world.padded(y), world.padded())
    folds = regrouped_folds(y, data.groups, 5, 2)
    found = supervised_word_scores(data, folds)
    for r, fold_of in enumerate(folds):
        for fold in range(5):
            test = fold_of == fold
            model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, tol=1e-8))
            model.fit(data.log_odds.T[~test], y[~test])
            expected = model.decision_function(data.log_odds.T[test])
            np.testing.assert_allclose(found.scores[r, test], expected, atol=2e-3)


def test_the_output_side_is_picked_up_where_it_stopped(tmp_path: Path) -> None:
    model, items = make_tiny_model("llama"), TASK.items()[:12]
    whole_file, torn_file = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    whole = read_output_side(model, TASK, items, partial=whole_file, advance=lambda steps: None)
    assert [row.id for row in whole] == [item.id for item in items]
    written = whole_file.read_bytes()
    torn_file.write_bytes(written[: len(written) * 2 // 3])
    steps: list[int] = []
    assert read_output_side(model, TASK, items, partial=torn_file, advance=steps.append) == whole
    assert sum(steps) == len(items)
    assert sorted(torn_file.read_bytes().splitlines()) == sorted(written.splitlines())


def test_layers_of_the_random_model_are_spread_over_its_depth() -> None:
    config = RunConfig(tasks=("refusal",), layers=(7,), positions=("prompt_last",))
    spec = random_spec(config, 30)
    assert spec.layers == (0, 7, 14, 22, 29)
    assert (spec.sites, spec.positions) == (("resid_post",), ("prompt_last",))
    assert random_spec(config, 3).layers == (0, 1, 2)


def test_the_embedding_layer_is_captured_and_never_probed() -> None:
    config = RunConfig(tasks=("refusal",), positions=("prompt_last",))
    assert config.task_spec().sites == ("resid_post", "embed")
    assert config.task_spec().positions == ("prompt_last", "mean_instruction")
    assert config.probed_spec() == CaptureSpec(positions=("prompt_last",))
    own = RunConfig(tasks=("refusal",), site="embed").task_spec()
    assert own.sites == ("embed",)
