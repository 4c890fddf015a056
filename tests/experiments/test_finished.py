"""What stands in the results of any run, on a model in this process or behind an endpoint."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.config import make_config
from experiments.contrast import Contrast
from experiments.finished import write_results
from experiments.records import write_json
from experiments.report.page import run_notes
from experiments.run_folder import RunFolder
from experiments.tables import SCORE_COLUMNS, TABLE_COLUMNS


@pytest.mark.parametrize("where", [{}, {"endpoint": "http://127.0.0.1:9/v1", "model": "m"}])
@pytest.mark.parametrize("revealed", [True, False])
def test_a_run_with_revealed_answers_says_so(
    tmp_path: Path, where: dict[str, str], revealed: bool
) -> None:
    folder = RunFolder(tmp_path)
    write_json(folder.manifest, {"model": {}})
    config = make_config({"tasks": ["difficulty"], "answer_revealed": revealed, **where})
    empty = (pd.DataFrame(columns=names) for names in (TABLE_COLUMNS, SCORE_COLUMNS))
    write_results(folder, config, [Contrast("difficulty", {}, *empty)])
    results = folder.read_results()
    assert results["answer_revealed"] is revealed
    assert any("showed the reference answer" in note for note in run_notes(results)) is revealed
