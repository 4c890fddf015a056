"""A user's own items, and the choice of a run's items from a task's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from experiments.item_columns import FIELDS, item_rows
from experiments.tasks import Item


def load_items(
    path: Path,
    task: str,
    *,
    columns: Mapping[str, str] | None = None,
    needs_answers: bool = False,
) -> list[Item]:
    """Read items from a CSV file with a header, or from JSON Lines, one object a line.

    A row holds the prompt as `text` or as `messages` (chat messages with `role` and `content`; JSON Lines only), and
    optionally `id` (default: the number of the row), `group` (default: that of the first row of the same text, or one
    of its own), `stratum` (default "all"), `answers` (for tasks with a right answer), `choices` (options of a
    multiple-choice question, of which an answer may be given by its letter), `type` and `meta`.

    Args:
        path: of the file.
        task: the items' task.
        columns: field -> the column of the file that holds it, where it has another name.
        needs_answers: whether every item must have a right answer.

    Raises:
        ValueError: a column that is not there (with those that are), a missing or ill-typed field, an empty text or an
            id that occurs twice (each with its line).
    """
    if not path.is_file():
        raise ValueError(f"items: no file {path}; give a CSV or JSON Lines file of items")
    items: list[Item] = []
    line_of: dict[str, int] = {}
    group_of: dict[str, str] = {}
    for count, (number, row) in enumerate(item_rows(path, columns or {}), start=1):
        where = f"{path}, line {number}"
        item = _item({"id": str(count), **row}, task, where)
        if needs_answers and not item.answers:
            raise ValueError(
                f"{where}: field 'answers' is missing; task {task!r} needs a right answer"
            )
        if item.id in line_of:
            raise ValueError(
                f"{where}: id {item.id!r} stands in line {line_of[item.id]} already; make ids unique"
            )
        line_of[item.id] = number
        if "group" not in row:
            item = replace(item, group=group_of.setdefault(item.text, item.id))
        items.append(item)
    if not items:
        raise ValueError(f"items: {path} holds no item; give one row an item")
    return items


def first_groups(items: Sequence[Item], n: int) -> list[Item]:
    """The longest run of whole groups from the start that holds at most `n` items.

    Groups are taken in the order of their first item, so that a smaller run is part of a larger one.
    """
    order = {group: i for i, group in enumerate(dict.fromkeys(item.group for item in items))}
    by_group = sorted(items, key=lambda item: order[item.group])
    chosen: list[Item] = []
    for _, members in groupby(by_group, key=lambda item: item.group):
        group = list(members)
        if len(chosen) + len(group) > n:
            break
        chosen.extend(group)
    return chosen


def item_from_row(row: dict[str, Any]) -> Item:
    """The inverse of `Item.to_json`, for rows that this package wrote."""
    return Item(**{**row, "messages": tuple(row["messages"]), "answers": tuple(row["answers"])})


def _item(row: dict[str, Any], task: str, where: str) -> Item:
    allowed = {*FIELDS, "task"}
    if unknown := sorted(set(row) - allowed):
        raise ValueError(
            f"{where}: unknown field {unknown[0]!r}; allowed are {', '.join(sorted(allowed))}"
        )
    identifier = text_field(row, "id", where)
    if row.get("task", task) != task:
        raise ValueError(
            f"{where}: field 'task' is {row['task']!r}, but the run's task is {task!r}"
        )
    if ("text" in row) == ("messages" in row):
        raise ValueError(f"{where}: give exactly one of the fields 'text' and 'messages'")
    if "text" in row:
        messages: list[Any] = [{"role": "user", "content": text_field(row, "text", where)}]
    else:
        messages = row["messages"]
        check_messages(messages, where)
    if not isinstance(row.get("meta", {}), dict):
        raise ValueError(f"{where}: field 'meta' must be an object")
    meta = dict(row.get("meta", {}))
    choices = _unlettered(_texts(row, "choices", where))
    if choices:
        meta["choices"] = choices
    if "type" in row:
        meta["type"] = text_field(row, "type", where)
    return Item(
        id=identifier,
        task=task,
        group=text_field(row, "group", where) if "group" in row else identifier,
        stratum=text_field(row, "stratum", where) if "stratum" in row else "all",
        messages=tuple(messages),
        answers=tuple(_named_choice(answer, choices) for answer in _texts(row, "answers", where)),
        meta=meta,
    )


def _texts(row: dict[str, Any], field: str, where: str) -> list[str]:
    texts = row.get(field, [])
    if not isinstance(texts, list) or not all(isinstance(t, str) and t.strip() for t in texts):
        raise ValueError(f"{where}: field {field!r} must be a list of non-empty strings")
    return texts


def _unlettered(choices: list[str]) -> list[str]:
    """The choices without letters in front ("A. red", "B) blue"), where each has its own."""
    found = [re.fullmatch(r"([A-Z])[.):]\s*(\S.*)", choice, re.DOTALL) for choice in choices]
    named = zip(found, ascii_uppercase, strict=False)
    texts = [match[2] for match, letter in named if match and match[1] == letter]
    return texts if len(texts) == len(choices) else choices


def _named_choice(answer: str, choices: Sequence[str]) -> str:
    """The choice that an answer names by its letter; any other answer as it is."""
    of_letter = dict(zip(ascii_uppercase, choices, strict=False))
    return answer if answer in choices else of_letter.get(answer.strip().upper(), answer)


def check_messages(messages: Any, where: str) -> None:
    """Raise ValueError unless `messages` is a chat that ends with a user's turn."""
    if not isinstance(messages, list) or not messages:
        raise ValueError(f"{where}: field 'messages' must be a non-empty list of chat messages")
    for message in messages:
        if not isinstance(message, dict) or set(message) != {"role", "content"}:
            raise ValueError(f"{where}: each of 'messages' must have exactly 'role' and 'content'")
        if message["role"] not in ("system", "user", "assistant"):
            raise ValueError(
                f"{where}: role {message['role']!r} in 'messages'; allowed are system, user, assistant"
            )
        text_field(message, "content", where)
    if messages[-1]["role"] != "user":
        raise ValueError(f"{where}: the last of 'messages' must have role 'user'; it is answered")


def text_field(row: dict[str, Any], field: str, where: str) -> str:
    """Return a field that must be a string with some text; ValueError begins with `where`."""
    if field not in row:
        raise ValueError(f"{where}: field {field!r} is missing; every line needs it")
    value = row[field]
    if not isinstance(value, str):
        raise ValueError(f"{where}: field {field!r} is {value!r:.40}; it must be a string")
    if not value.strip():
        raise ValueError(f"{where}: field {field!r} is empty; give it some text")
    return value
