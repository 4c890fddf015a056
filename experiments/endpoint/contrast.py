"""The words against the text, where words are all that is known of a model.

What this does not show: what the model knows and does not say. That takes activations, so no stage is diagnosed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from experiments.baselines import TextStack, nested_text_stack
from experiments.config import RunConfig
from experiments.contrast import Contrast
from experiments.overview import overview_of, why_not_scored
from experiments.predictors import supervised_word_scores, verbal_scores
from experiments.progress import Reporter
from experiments.result_json import gap_json, interval_json
from experiments.scored import Scored
from experiments.splits import strata_results
from experiments.tables import SCORE_COLUMNS, TABLE_COLUMNS, item_cells, predictor_rows
from experiments.task_data import WordData
from experiments.words import words_result
from probes import platt, within_fold_zscores

NO_ACTIVATIONS = "none (endpoint)"
NOT_DIAGNOSED = (
    "Where knowledge is lost on the way to the words is not diagnosed: an endpoint gives no activations, so there is "
    "nothing to hold the words against but the text."
)


def contrast_words(data: WordData, config: RunConfig, reporter: Reporter) -> Contrast:
    """Score the words and the text of one task on the same items, folds and pairs.

    The verbal score is that of any run where the endpoint gives log-probabilities; else the parsed answers, averaged
    over wordings and orders. A task whose labels cannot be scored is skipped with the reason; how its questions were
    answered is reported all the same.
    """
    about = overview_of(data) | {"activations": NO_ACTIVATIONS}
    reason = why_not_scored(data, config.folds)
    if reason is not None:
        return Contrast(
            data.task.name,
            about | {"skipped": reason},
            pd.DataFrame(columns=TABLE_COLUMNS),
            pd.DataFrame(columns=SCORE_COLUMNS),
        )
    with reporter.stage(f"{data.task.name}: text baselines", 1) as advance:
        text = nested_text_stack(
            data.text_families,
            data.outcome,
            data.groups,
            n_folds=config.folds,
            n_regroupings=config.regroupings,
            seed=config.seed,
        )
        advance(1)
    scored = _Scored.of(data, text)
    intervals = {
        name: row.interval(data.outcome, scored.folds, data.groups)
        for name, row in scored.rows.items()
    }
    verbal, words_alone = scored.rows["verbal"], scored.rows.get("supervised_words")
    gap = verbal.minus(scored.rows["text"], data.outcome, scored.folds, data.groups)
    result = about | {
        "skipped": None,
        "verbal": interval_json(intervals["verbal"], verbal.estimand)
        | {"score": "log-odds" if data.has_log_odds else "parsed answers"}
        | words_result(data, scored.folds),
        "supervised_words": None
        if words_alone is None
        else interval_json(intervals["supervised_words"], words_alone.estimand),
        "baselines": {
            name: interval_json(intervals[name], "procedure") for name in ("text", *text.families)
        },
        "gap": {"verbal_minus_text": gap_json(gap)},
        "strata": strata_results(data, scored.rows, scored.folds),
        "breakdown": {"stage": None, "sentence": NOT_DIAGNOSED, "evidence": []},
    }
    return Contrast(
        data.task.name,
        result,
        pd.DataFrame(predictor_rows(data, scored.rows, intervals), columns=TABLE_COLUMNS),
        _score_table(data, scored),
    )


@dataclass(frozen=True)
class _Scored:
    """Every predictor that needs no activations, on the same folds."""

    folds: Int[np.ndarray, "regrouping item"]
    rows: dict[str, Scored]

    @classmethod
    def of(cls, data: WordData, text: TextStack) -> _Scored:
        families = {name: Scored.of(one) for name, one in text.families.items()}
        folds = next(iter(text.families.values())).folds
        rows = {"verbal": Scored.fixed(_verbal(data, folds))}
        if data.has_log_odds:
            rows["supervised_words"] = supervised_word_scores(data, folds)
        rows["text"] = Scored(text.scores, text.training_scores)
        return cls(folds, rows | families)


def _verbal(
    data: WordData, folds: Int[np.ndarray, "regrouping item"]
) -> Float[np.ndarray, "regrouping item"]:
    if data.has_log_odds:
        return verbal_scores(data, folds)
    return np.tile(answers_averaged(data), (len(folds), 1))


def answers_averaged(data: WordData) -> Float[np.ndarray, " item"]:
    """The share of an item's readable answers, over wordings and orders, that predict outcome 1; 0.5 without any."""
    said = {(row.item, row.elicitation): row.parsed for row in data.reports}
    shares = []
    for item in data.items:
        parsed = [said[item.id, elicitation.name] for elicitation in data.elicitations]
        readable = [one for one in parsed if one is not None]
        shares.append(sum(readable) / len(readable) if readable else 0.5)
    return np.array(shares)


def _score_table(data: WordData, scored: _Scored) -> pd.DataFrame:
    """`scores.csv`, with nothing in the columns of the probes."""
    folds = scored.folds[0]
    verbal, text = scored.rows["verbal"].scores[0], scored.rows["text"].scores[0]
    rows: dict[str, Any] = {
        **item_cells(data),
        "fold": folds,
        "verbal": within_fold_zscores(verbal, folds).round(6),
        "baseline_text": within_fold_zscores(text, folds).round(6),
        # Answers that are all alike, or none of them readable, hold no probability.
        "verbal_probability": platt(data.outcome, verbal, folds).round(6)
        if np.ptp(verbal) > 0
        else np.nan,
        "verbal_answer": data.parsed,
    }
    return pd.DataFrame(rows, columns=SCORE_COLUMNS)
