"""The one typer application, and what its commands share."""

from __future__ import annotations

import json
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Does a language model know what it is about to do, and where does that knowledge get lost "
    "on the way to its words?",
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_table(rows: dict[str, str], as_json: bool) -> None:
    """Print names and what they are, as text or as JSON."""
    if as_json:
        print(
            json.dumps([{"name": name, "summary": text} for name, text in rows.items()], indent=2)
        )
        return
    width = max(map(len, rows))
    for name, text in rows.items():
        print(f"{name:<{width}}  {text}")
