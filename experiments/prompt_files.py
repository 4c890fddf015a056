"""A user's own prompts, read from JSON Lines or CSV."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.csv_files import csv_rows
from experiments.items import check_messages, text_field
from experiments.records import numbered_rows
from experiments.tasks.item import conversation_text
from hooks import Prompt

FIELDS = ("messages", "prompt", "text")


@dataclass(frozen=True)
class PromptRow:
    """A prompt, and the group of items that it must never be parted from by a split."""

    prompt: Prompt
    group: str

    @property
    def text(self) -> str:
        """All that the model reads of the prompt, for text baselines."""
        if self.prompt.messages is None:
            return self.prompt.instruction
        return conversation_text(self.prompt.messages)


def read_prompts(path: Path) -> list[PromptRow]:
    """Read prompts from JSON Lines, or from a CSV file with a header.

    A row holds `id` and one of `messages` (a chat; JSON Lines only), `prompt` (a chat of one user message) or `text`
    (plain text, given to the model as it is), and optionally `quote` (a part of the last user message, for the position
    `quote_last`) and `group` (default: a group of its own). Other fields are left alone.

    Raises:
        ValueError: no file, no row, or a row whose fields are missing, ill-typed or empty (with its line), or an id
            that occurs twice.
    """
    if not path.is_file():
        raise ValueError(f"prompts: no file {path}; give a JSON Lines or CSV file of prompts")
    rows: list[PromptRow] = []
    line_of: dict[str, int] = {}
    is_csv = path.suffix.lower() == ".csv"
    for number, row in csv_rows(path) if is_csv else numbered_rows(path):
        where = f"{path}, line {number}"
        found = _prompt_row(row, where)
        id = found.prompt.id
        if id in line_of:
            raise ValueError(
                f"{where}: id {id!r} stands in line {line_of[id]} already; make ids unique"
            )
        line_of[id] = number
        rows.append(found)
    if not rows:
        raise ValueError(f"prompts: {path} holds no prompt; give at least one row")
    return rows


def _prompt_row(row: dict[str, Any], where: str) -> PromptRow:
    id = text_field(row, "id", where)
    given = [field for field in FIELDS if field in row]
    if len(given) != 1:
        raise ValueError(f"{where}: give exactly one of the fields {', '.join(FIELDS)}")
    group = text_field(row, "group", where) if "group" in row else id
    quote = text_field(row, "quote", where) if "quote" in row else None
    if given == ["messages"]:
        check_messages(row["messages"], where)
    else:
        text_field(row, given[0], where)
    try:
        if given == ["messages"]:
            prompt = Prompt(id=id, messages=tuple(row["messages"]), quote=quote)
        elif given == ["prompt"]:
            prompt = Prompt.chat(id, row["prompt"], quote=quote)
        else:
            prompt = Prompt(id=id, text=row["text"], quote=quote)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return PromptRow(prompt, group)
