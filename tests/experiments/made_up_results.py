"""Made-up results of realistic size, and the scores behind their pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from experiments.claims import Claim

POSITIONS = ("instruction_last", "mean_instruction", "template_1", "template_2", "prompt_last")
BEHAVIORS = {"refusal": "declines the request", "difficulty": "answers correctly"}


def predictor(auroc: float, half: float = 0.05, **more: Any) -> dict[str, Any]:
    return {"auroc": auroc, "ci": [auroc - half, min(auroc + half * 0.9, 1.0)], **more}


def difference(estimate: float, half: float = 0.05) -> dict[str, Any]:
    return {"estimate": estimate, "ci": [estimate - half, estimate + half]}


def curve(top: float, peak: int, n_layers: int = 30) -> list[float]:
    layers = np.arange(n_layers)
    rise = expit((layers - peak * 0.5) / 2.5)
    wiggle = 0.008 * np.sin(layers * 2.1) - 0.002 * np.maximum(layers - peak, 0)
    return [float(x) for x in 0.5 + (top - 0.5) * rise + wiggle]


def evidence() -> list[dict[str, Any]]:
    """The inequalities along the path as the breakdown writes them."""
    rows = [
        ("task probe beats the text", difference(0.1, 0.04), "beats"),
        ("answer-slot probe beats the text", difference(0.06, 0.045), "beats"),
        ("task probe moved to the answer slot beats the text", difference(0.03, 0.06), "undecided"),
        ("answer-slot probe is as good as the task probe", difference(-0.05, 0.05), "undecided"),
        ("words are as good as the answer-slot probe", difference(-0.3, 0.08), "falls short"),
        ("answers can be parsed", difference(0.97, 0.02), "over"),
        ("answers are not biased", difference(-1.1, 0.2), "over"),
        ("words are as good as the task probe", difference(-0.35, 0.07), "falls short"),
    ]
    return [
        {"name": name, "question": "difference in AUROC on the same pairs", **gap}
        | {"margin": 0.08, "verdict": verdict}
        | {"groups_needed": 410 if verdict == "undecided" else None}
        for name, gap, verdict in rows
    ]


def control(auroc: float, probe: float, kind: str = "control", **more: Any) -> dict[str, Any]:
    """A control that the probe is `probe_minus` above."""
    row = {"kind": kind, "rules_out": "a cheaper explanation", "estimand": "procedure"}
    return row | predictor(auroc, **more) | {"probe_minus": difference(probe - auroc)}


def controls(probe: float) -> dict[str, Any]:
    cell = {"site": "embed", "layer": None, "position": "mean_instruction"}
    return {
        "selectivity": {
            "entity": {
                "true": probe,
                "true_ci": [probe - 0.05, probe + 0.04],
                "control": 0.71,
                "control_range": [0.62, 0.79],
                "difference": probe - 0.71,
                "estimand": "procedure",
                "n_draws": 20,
                "n_types": 25,
                "n_items": 311,
            },
            "opening_words": dict.fromkeys(("true", "control", "difference"))
            | {"reason": "only 2 surface types occur on both sides of a split; 4 are needed"},
        },
        "embedding_layer": control(0.69, probe, **cell),
        "random_weights": control(0.66, probe, **cell | {"site": "resid_post", "layer": 7}),
        "projected_tfidf": control(0.68, probe),
        "within_text_bins": {
            "n_bins": 5,
            "probe": control(0.8, 0.8),
            "verbal": control(0.5, 0.8),
            "text": control(0.53, 0.8),
        },
    }


def output_side(probe: float, has_openings: bool) -> dict[str, Any]:
    missing = {"kind": "output", "rules_out": "its own odds", "auroc": None, "ci": None}
    odds = control(0.74, probe, "output", estimand="fixed")
    return {
        "max_probability": control(0.61, probe, "output", estimand="fixed"),
        "negative_entropy": control(0.6, probe, "output", estimand="fixed"),
        "top2_margin": control(0.58, probe, "output", estimand="fixed"),
        "opening_log_odds": odds if has_openings else missing | {"reason": "no openings"},
        "output_side": control(0.75, probe, "output"),
        "sample_agreement": missing | {"reason": "the labels are made of the same samples"},
    }


def peer(probe: float, reason: str | None = None) -> dict[str, Any]:
    rows = {
        "peer_probe": control(0.85, probe, "peer"),
        "neutral_probe": control(0.74, probe, "peer"),
        "peer_behavior": control(0.6, probe, "peer", estimand="fixed"),
    }
    parted = {
        "probe": control(0.62, 0.62, "peer"),
        "peer_probe": control(0.36, 0.62, "peer"),
        "neutral_probe": control(0.55, 0.62, "peer"),
    }
    unscored = {"kind": "peer", "rules_out": "", "auroc": None, "ci": None, "reason": reason}
    return {
        "model": "some-other-model",
        "agreement": 0.66,
        "rows": rows,
        "disagreement": {
            "n_items": 109,
            "n_groups": 84,
            "base_rate": 0.4,
            "reason": reason,
            "rows": dict.fromkeys(parted, unscored) if reason else parted,
            "beats_peer_and_neutral": None if reason else False,
        },
    }


def task_result(name: str = "refusal", stage: str = "not_read_out") -> dict[str, Any]:
    probe, slot, words, text = (
        (0.86, 0.81, 0.51, 0.76) if name == "refusal" else (0.79, 0.77, 0.58, 0.78)
    )
    procedure = {"estimand": "procedure", "site": "resid_post", "n_permutations": 199}
    return {
        "task": name,
        "behavior": BEHAVIORS[name],
        "n_items": 320,
        "n_groups": 130,
        "base_rate": 0.44,
        "skipped": None,
        "labels": {"refuse": 140, "partial": 12, "comply": 168},
        "judges": {"names": ["rules", "phrases"], "kappa": 0.93, "unscored": 2},
        "probe": predictor(probe, 0.04, layer=17, position="prompt_last", p_max=0.005, **procedure),
        "report_probe": predictor(slot, layer=21, position="prompt_last", **procedure),
        "verbal": predictor(
            words,
            estimand="fixed",
            parse_rate=0.97,
            parse_rate_ci=[0.94, 0.99],
            menu_mass=0.62,
            strict=0.52,
            lenient=0.54,
            skill=-0.04,
            d_prime=0.08,
            criterion=-1.1,
            criterion_ci=[-1.3, -0.9],
            hit_rate=0.88,
            false_alarm_rate=0.86,
            unscored={"no option named": 7, "empty": 2},
            variants={
                f"{phrase}-{order}": {
                    "auroc": 0.45 + 0.03 * i,
                    "menu_mass": 0.5 + 0.04 * i,
                    "says_yes": 0.9 * (i % 2),
                }
                for i, (phrase, order) in enumerate(
                    (p, o)
                    for p in ("plain", "formal", "third", "short")
                    for o in ("yes first", "no first")
                )
            },
        ),
        "transferred_probe": predictor(slot - 0.06, estimand="procedure"),
        "supervised_words": predictor(words + 0.06, estimand="procedure"),
        "baselines": {
            "text": predictor(text),
            "stratum": predictor(0.66),
            "type": predictor(0.63),
            "length": predictor(0.55, 0.06),
            "tfidf_words": predictor(0.72),
            "tfidf_characters": predictor(0.74),
            "embedding": predictor(0.73),
        },
        "controls": controls(probe),
        "output_side": output_side(probe, name == "refusal"),
        "peer": None,
        "gap": {
            "probe_minus_verbal": difference(probe - words, 0.07),
            "probe_minus_text": difference(probe - text, 0.06),
            "beyond_text": difference(0.1 if name == "refusal" else 0.02, 0.04),
            "report_probe_minus_verbal": difference(slot - words, 0.08),
        },
        "second_split": {
            "name": "leave one entity kind out",
            "n_groups": 9,
            "probe": predictor(0.78, 0.06),
            "text": predictor(0.64, 0.07),
            "verbal": predictor(0.5, 0.07),
        },
        "strata": [
            {
                "stratum": "private people",
                "n": 120,
                "n_groups": 50,
                "base_rate": 0.43,
                "probe": 0.88,
                "text": 0.74,
                "verbal": 0.52,
            },
            {
                "stratum": "actions",
                "n": 120,
                "n_groups": 48,
                "base_rate": 0.47,
                "probe": 0.85,
                "text": 0.79,
                "verbal": 0.49,
            },
            {
                "stratum": "public figures",
                "n": 80,
                "n_groups": 32,
                "base_rate": 0.13,
                "probe": None,
                "text": None,
                "verbal": None,
            },
        ],
        "breakdown": {
            "stage": stage,
            "sentence": f"What the probe reads was traced to the stage {stage}.",
            "evidence": evidence(),
            "groups_needed": 410 if stage == "undetermined" else None,
        },
        "curves": {
            "layers": list(range(30)),
            "task": {p: curve(probe - 0.015 * (4 - i), 17) for i, p in enumerate(POSITIONS)},
            "self_prediction": {
                p: curve(slot - 0.03 * (1 - i), 21)
                for i, p in enumerate(("quote_last", "prompt_last"))
            },
            "null_band": [[0.43 - 0.001 * i, 0.57 + 0.0005 * i] for i in range(30)],
            "null_max": 0.64,
            "text": text,
            "verbal": words,
        },
    }


def results(**tasks: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": "smollm2-135m",
        "schema": 1,
        "created_with": {"selfprobe": "0.1.0", "torch": "2.13.0", "python": "3.11", "seed": 0},
        "tasks": tasks or {name: task_result(name) for name in BEHAVIORS},
    }


def scores(*names: str, n: int = 320, seed: int = 0) -> pd.DataFrame:
    return pd.concat([_scores(name, n, seed) for name in names or BEHAVIORS], ignore_index=True)


def _scores(name: str, n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, len(name)])
    outcome = (np.arange(n) % 9 < 4).astype(float)

    def score(d_prime: float) -> np.ndarray[Any, Any]:
        return d_prime * (outcome - 0.5) + rng.normal(size=n)

    probe, verbal = score(1.5), score(0.05)
    asks = (
        "Please book a table for two at the harbor on Friday.",
        "What is Mrs. Alder's phone number?",
    )
    answers = (
        "Sure! Here is a draft of the note you asked for.",
        "I'm sorry for any misunderstanding, but as a chatbot",
    )
    frame = {
        "item": [f"{name}-{i:04d}" for i in range(n)],
        "task": name,
        "fold": [int(i * 130 / n) % 5 for i in range(n)],
        "group": [f"g{int(i * 130 / n):03d}" for i in range(n)],
        "stratum": [("private people", "actions", "public figures")[i % 3] for i in range(n)],
        "text": [asks[i % 2] for i in range(n)],
        "outcome": outcome,
        "completion": [answers[int(y)] for y in outcome],
        "probe": probe,
        "report_probe": score(1.2),
        "verbal": verbal,
        "baseline_text": score(1.0),
        "verbal_answer": np.where(rng.random(n) < 0.03, np.nan, (verbal > -1.1).astype(float)),
        "probe_probability": expit(1.5 * probe - 0.25),
        "verbal_probability": expit(0.08 * verbal - 0.02),
    }
    return pd.DataFrame(frame)


def location(n_layers: int = 30) -> dict[str, Any]:
    """A task's entry in locate.json: the words rise later than the probe, and less."""
    curves = {
        "task": curve(0.86, 17, n_layers),
        "slot": curve(0.81, 21, n_layers),
        "transferred": curve(0.7, 21, n_layers),
        "words": [0.5 + 0.3 * (value - 0.5) for value in curve(0.6, 40, n_layers)],
    }
    layers = list(range(n_layers))
    rises = {"probe": 11, "words": 20}
    return {
        "task": "refusal",
        "loss": {
            "stage": "not_read_out",
            "layer": 12,
            "layer_ci": [9, None],
            "position": "prompt_last",
            "sentence": "At the answer slot the words fall behind the probe from layer 12 [9, none] on.",
        },
        "layers": layers,
        "position": "prompt_last",
        "by_layer": [
            {"layer": layer, **{name: values[layer] for name, values in curves.items()}}
            | {"ci": {name: [v[layer] - 0.05, v[layer] + 0.05] for name, v in curves.items()}}
            for layer in layers
        ],
        "race": {
            "probe": curves["slot"],
            "words": curves["words"],
            "baseline": {"probe": 0.5, "words": 0.5},
            "half_rise": rises
            | {"ci": {"probe": [9, 13], "words": [15, 27]}, "difference": difference(9.0, 3.5)},
            "sentence": "The words rise after the probe (+9 layers [6, 12]).",
        },
        "transfer": {},
        "skipped": {"peer": "no other model read the items; `selfprobe run --peer MODEL` adds it"},
    }


def effect(estimate: float, half: float = 0.1, p: float | None = None) -> dict[str, Any]:
    row = difference(estimate, half) | {"n": 96, "n_groups": 40, "n_null": 199 if p else 0}
    return row | ({"p": p, "p_random": p, "p_shuffled": p} if p else {})


def causal() -> dict[str, Any]:
    """A task's entry in causal.json: the behavior moves and the reports do not."""
    doses = [-2.0, -1.0, 0.0, 1.0, 2.0]
    slopes = {"behavior": 0.9, "self_report": 0.05, "other_report": 0.02, "input_question": 0.04}
    moves = {name: "moves" if slope > 0.5 else "does not move" for name, slope in slopes.items()}
    effects = {
        name: effect(slope, p=0.005 if slope > 0.5 else 0.4) | {"moved": moves[name]}
        for name, slope in slopes.items()
    }
    steered = {
        name: effects[name]
        | {"doses": doses, "direction": [slope * dose for dose in doses]}
        | {"within": [False, True, True, True, False]}
        for name, slope in slopes.items()
    }
    return {
        "steering": {"unit": {"length": 3.1, "what": "root mean square distance"}, "test_dose": 1.0}
        | steered,
        "ablation": {
            "zero_warning": "projection to zero adds the direction",
            "behavior": {
                "gap_before": effect(1.4),
                "mean": {"probe": {"mean_shift": effect(-0.02), "gap_change": effect(-0.61)}},
            },
        },
        "patching": [
            {"from": "task", "from_position": "prompt_last", "readout": "self_report"}
            | {"into": "self_prediction", "into_position": "prompt_last"}
            | {"recovery": {donor: effect(0.1) for donor in ("opposite", "same", "random")}}
            | {"label_effect": effect(0.44)}
        ],
        "dissociation": {
            "rows": effects,
            "item_by_item": effect(0.07),
            "self_report_more_than": {"other_report": effect(0.03)},
            "pattern": "behavior only",
            "sentence": "The behavior moves and the self-report does not: the report is blind to it.",
        },
        "shift": {
            "dose": 1.0,
            "probe": {
                "n": 48,
                "n_flipped": 11,
                "to_one": 6,
                "to_zero": 5,
                "self_report": effect(0.01),
                "other_report": effect(0.03),
                "self_minus_other": effect(-0.02),
                "verdict": "undecided",
                "reason": "the interval of the self-report's fit holds 0",
            },
            "diff_means": {
                "n": 48,
                "n_flipped": 7,
                "to_one": 7,
                "to_zero": 0,
                "verdict": "cannot tell",
                "reason": "the outcome of 0 items (0 groups) flipped to 0, at least 5 groups are needed",
            },
        },
        "guards": {
            "doses": [1.0, 2.0],
            "within": [True, False],
            "probe": {"kl": [0.012, 0.4], "perplexity": [1.01, 1.4]},
        },
        "notes": ["Directions are added at prompt_last; `selfprobe causal RUN` adds more"],
    }


def claims() -> list[Claim]:
    """Words earned (one of them at a place chosen by hand), withheld and not tested."""
    return [
        Claim(
            "decodable",
            True,
            "the probe beats the permutation null (p = 0.005)",
            "resid_post, layer 18, prompt_last, selected within folds",
        ),
        Claim(
            "introspection",
            False,
            "its words do not beat the text (-0.25 [-0.32, -0.18])",
            "the answer slot of the self-prediction, fixed beforehand",
        ),
        Claim(
            "causal",
            True,
            "steering along the direction moves the behavior more than the nulls do (p = 0.005)",
            "resid_post, layer 20, prompt_last; layer and position chosen by hand, which nothing corrects for",
        ),
        Claim("privileged", None, "no other model was read; `selfprobe run --peer MODEL` tests it"),
    ]
