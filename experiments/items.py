"""A user's own items, and the choice of a run's items from a task's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from experiments.records import numbered_rows
from experiments.tasks import Item


def load_items(path: Path, task: str, *, needs_answers: bool = False) -> list[Item]:
    """Read items from JSON Lines, one object a line.

    A line holds `id`, the prompt as `text` or as `messages` (chat messages with `role` and `content`), and
    optionally `group` (default: a group of its own), `stratum` (default "all"), `answers` (for tasks with a
    right answer) and `meta`.

    Raises:
        ValueError: a missing or ill-typed field, an empty text or an id that occurs twice (each with its line).
    """
    if not path.is_file():
        raise ValueError(f"items: no file {path}; give a JSON Lines file of items")
    items: list[Item] = []
    line_of: dict[str, int] = {}
    for number, row in numbered_rows(path):
        where = f"{path}, line {number}"
        item = _item(row, task, where)
        if needs_answers and not item.answers:
            raise ValueError(
                f"{where}: field 'answers' is missing; task {task!r} needs a right answer"
            )
        if item.id in line_of:
            raise ValueError(
                f"{where}: id {item.id!r} stands in line {line_of[item.id]} already; make ids unique"
            )
        line_of[item.id] = number
        items.append(item)
    if not items:
        raise ValueError(f"items: {path} holds no item; give one JSON object a line")
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
    known = {"id", "text", "messages", "group", "stratum", "answers", "meta", "task"}
    if unknown := sorted(set(row) - known):
        raise ValueError(
            f"{where}: unknown field {unknown[0]!r}; allowed are {', '.join(sorted(known))}"
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
    answers = row.get("answers", [])
    if not isinstance(answers, list) or not all(isinstance(a, str) and a.strip() for a in answers):
        raise ValueError(f"{where}: field 'answers' must be a list of non-empty strings")
    if not isinstance(row.get("meta", {}), dict):
        raise ValueError(f"{where}: field 'meta' must be an object")
    return Item(
        id=identifier,
        task=task,
        group=text_field(row, "group", where) if "group" in row else identifier,
        stratum=text_field(row, "stratum", where) if "stratum" in row else "all",
        messages=tuple(messages),
        answers=tuple(answers),
        meta=row.get("meta", {}),
    )


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
