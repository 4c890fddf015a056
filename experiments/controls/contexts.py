"""The same question about another assistant, and a question about the input: as rows beside words and probe.

A report that does no better than these says something of assistants, or of the input, and nothing of this model.
"""

from __future__ import annotations

from functools import partial

from experiments.controls.rows import ControlRow, Scoring
from experiments.other_contexts import OtherContext
from experiments.predictors import Fitting, Grid, averaged_log_odds
from experiments.records import json_number
from experiments.result_json import cell_json, gap_json
from experiments.scored import Scored
from experiments.task_data import TaskData, cell_name
from probes import Candidate

RULES_OUT = {
    "other_framing": "what would hold of any assistant",
    "input_question": "what the model says of the input itself",
}


def context_rows(
    data: TaskData, verbal: Scored, fitting: Fitting, scoring: Scoring
) -> dict[str, dict[str, ControlRow]]:
    """Context -> its log-odds (`verbal`, the mean over both orders) and a probe at its answer slots (`probe`)."""
    return {
        name: {
            "verbal": _words(name, context, verbal, scoring),
            "probe": _probe(name, context, data, fitting, scoring),
        }
        for name, context in data.contexts.items()
    }


def _words(name: str, context: OtherContext, verbal: Scored, scoring: Scoring) -> ControlRow:
    said = Scored.fixed(averaged_log_odds(context.log_odds, scoring.folds))
    about = {} if scoring.reason else {"verbal_minus": gap_json(scoring.difference(verbal, said))}
    mass = json_number(context.menu_mass.mean())
    return scoring.row(f"{name}_words", "context", said, RULES_OUT[name], menu_mass=mass, **about)


def _probe(
    name: str, context: OtherContext, data: TaskData, fitting: Fitting, scoring: Scoring
) -> ControlRow:
    cells = tuple(cell for cell in context.cache.cells() if cell[2] == "prompt_last")
    candidates = [
        Candidate.lazy(
            cell_name(cell), *(partial(context.features, cell, e) for e in context.elicitations)
        )
        for cell in cells
    ]
    grid = Grid(cells, fitting.nested(candidates, data, data.groups))
    read = Scored.of(grid.nested)
    return scoring.row(f"{name}_probe", "context", read, RULES_OUT[name], **cell_json(grid.chosen))
