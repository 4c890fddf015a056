"""`selfprobe tasks` and `selfprobe models`: what the other commands take by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from experiments.cli.app import JsonFlag, app, print_table

if TYPE_CHECKING:
    from experiments.tasks import Task


@app.command(epilog="Example:\n\n`selfprobe tasks --json`")
def tasks(as_json: JsonFlag = False) -> None:
    """List the tasks, those of a family under its name: `run` takes either."""
    from experiments.tasks import TASKS, families

    if as_json:
        print(json.dumps([_described(task) for task in TASKS.values()], indent=2))
        return
    width = max(map(len, TASKS))
    for name, task in TASKS.items():
        if task.family is None:
            print(f"{name:<{width}}  {task.summary}")
    for family, names in families().items():
        print(f"\n{family} (a family: `selfprobe run {family}` runs all of it)")
        for name in names:
            print(f"  {name:<{width}}  {TASKS[name].summary}")


def _described(task: type[Task]) -> dict[str, Any]:
    return {
        "name": task.name,
        "family": task.family,
        "summary": task.summary,
        "behavior": task.behavior,
        "values": [question.name for question in task.value_questions],
        "samples": task.min_samples,
        "needs_answers": task.needs_answers,
        "needs_logprobs": task.needs_logprobs,
    }


@app.command(epilog="Example:\n\n`selfprobe models --json`")
def models(as_json: JsonFlag = False) -> None:
    """List the models that `--model` takes by name."""
    from hooks import available_models

    print_table(available_models(), as_json)
