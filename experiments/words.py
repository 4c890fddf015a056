"""What the model's words are worth: log-odds and parsed answers, and how they vary with the asking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from experiments.records import json_number
from experiments.task_data import WordData
from probes import criterion_interval, d_prime, rate_interval, same_fold_auroc, skill

MENU_NOT_TAKEN = 0.1
"""Option mass under which the log-odds say little: the model was about to write something else."""


def words_result(data: WordData, folds: Int[np.ndarray, "regrouping item"]) -> dict[str, Any]:
    """The verbal channel beside its AUROC: parse rate, strict and lenient accuracy, skill, d-prime, criterion, and
    each elicitation by itself.

    Strict counts an unparsed answer as wrong, lenient leaves it out. Without log-odds (an endpoint may give none) there
    is no menu mass and there are no `variants`.
    """
    outcome, parsed = data.outcome, data.parsed
    readable = ~np.isnan(parsed)
    parse_rate = rate_interval(readable, data.groups)
    right = parsed == outcome
    mass = float(data.menu_mass.mean())
    known = data.has_log_odds
    return {
        "parse_rate": json_number(parse_rate.estimate),
        "parse_rate_ci": [json_number(parse_rate.low), json_number(parse_rate.high)],
        "unscored": dict(Counter(row.reason for row in data.answers if row.parsed is None)),
        "menu_mass": json_number(mass),
        "menu_taken": mass >= MENU_NOT_TAKEN if known else None,
        "strict": json_number(right.mean()),
        "lenient": json_number(right[readable].mean()) if readable.any() else None,
        "skill": json_number(skill(outcome, parsed)),
        **signal_detection(outcome, parsed, data.groups),
        "variants": {
            elicitation.name: {
                "auroc": json_number(
                    np.mean([same_fold_auroc(outcome, data.log_odds[v], fold) for fold in folds])
                ),
                "menu_mass": json_number(data.menu_mass[v].mean()),
                "says_yes": json_number((data.log_odds[v] > 0).mean()),
            }
            for v, elicitation in enumerate(data.elicitations if known else ())
        },
    }


def signal_detection(
    outcome: np.ndarray, parsed: np.ndarray, groups: Sequence[str] | np.ndarray
) -> dict[str, Any]:
    """d-prime and criterion of parsed answers (nan: unparsed); None where they hold no item of one outcome."""
    readable = ~np.isnan(parsed)
    happened, said = outcome[readable], parsed[readable].astype(int)
    of = np.asarray(groups)[readable]
    names = ("d_prime", "criterion", "criterion_ci", "hit_rate", "false_alarm_rate")
    if len(set(happened)) < 2 or len(set(of)) < 2:
        return dict.fromkeys(names)
    bias = criterion_interval(happened, said, of)
    return {
        "d_prime": json_number(d_prime(happened, said)),
        "criterion": json_number(bias.estimate),
        "criterion_ci": [json_number(bias.low), json_number(bias.high)],
        "hit_rate": json_number(said[happened == 1].mean()),
        "false_alarm_rate": json_number(said[happened == 0].mean()),
    }
