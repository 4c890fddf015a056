"""The report as one web page: no network, pictures as data, every text escaped, one script that is allowed by its hash.

The script is the file `script.js` and holds nothing of a run: what it searches and sorts are the texts of the page,
which is whole without it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from experiments.claims import THE_RUN, causal_command, same_command
from experiments.records import write_text
from experiments.report import formatting
from experiments.report.figures import FigurePaths
from experiments.report.limits import run_notes
from experiments.report.pictures import CAPTIONS
from experiments.report.task_page import Beside, task_page

_NOTHING_BESIDE = Beside()

COMMANDS = {
    "run": same_command(THE_RUN),
    "causal": causal_command(THE_RUN),
    "report": f"selfprobe report {THE_RUN}",
}
"""What adds a part of the page that a run lacks."""


def write_page(
    results: Mapping[str, Any],
    scores: pd.DataFrame,
    figures: FigurePaths,
    path: str | Path,
    *,
    beside: Beside = _NOTHING_BESIDE,
) -> Path:
    """Write the report.

    Args:
        results: as in `results.json`; a skipped task is shown with its reason.
        scores: a row an item and task.
        figures: what `write_figures` returned, and others of the same tasks.
        path: the HTML file to write.
        beside: what else the run holds.

    Raises:
        ValueError: if a task's `breakdown.stage` is none of the seven.
    """
    model, script = str(results["model"]), _script()
    tasks = [
        {"anchor": f"task-{index}"}
        | task_page(model, name, task_result, scores, figures.get(name, {}), beside)
        for index, (name, task_result) in enumerate(results["tasks"].items(), start=1)
    ]
    html = (
        _environment()
        .get_template("template.html")
        .render(
            model=model,
            notes=list(run_notes(results)),
            tasks=tasks,
            captions=CAPTIONS,
            commands=COMMANDS,
            settings=dict(_flat({k: v for k, v in results.items() if k not in {"model", "tasks"}})),
            policy=content_policy(script),
            script=Markup(script),
        )
    )
    path = Path(path)
    write_text(path, html)
    return path


def content_policy(script: str) -> str:
    """The Content-Security-Policy: nothing is loaded, and no script runs but this one."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _script() -> str:
    return files("experiments.report").joinpath("script.js").read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("experiments.report", "."),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=formatting.number,
        auroc=formatting.auroc,
        gain=formatting.gain,
        estimate=formatting.estimate,
        bracket=formatting.bracket,
        coded=formatting.coded,
        sentence_case=lambda text: text[:1].upper() + text[1:],
    )
    return environment


def _printable(value: object) -> object:
    """What an expression of the template prints; what macros return is markup already."""
    return value if isinstance(value, Markup) else formatting.readable(value)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key} ")
        else:
            yield f"{prefix}{key}".replace("_", " "), str(value)
