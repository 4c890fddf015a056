"""`selfprobe tasks` and `selfprobe models`: what the other commands take by name."""

from __future__ import annotations

from experiments.cli.app import JsonFlag, app, print_table


@app.command()
def tasks(as_json: JsonFlag = False) -> None:
    """List the tasks."""
    from experiments.tasks import TASKS

    print_table({name: task.summary for name, task in TASKS.items()}, as_json)


@app.command()
def models(as_json: JsonFlag = False) -> None:
    """List the models that `--model` takes by name."""
    from hooks import available_models

    print_table(available_models(), as_json)
