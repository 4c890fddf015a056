import json
from pathlib import Path

import pytest

from experiments.items import first_groups, item_from_row, load_items
from experiments.tasks import Item
from experiments.tasks.item import own_texts


def write(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


GOOD = {"id": "a", "text": "Hello?"}


def test_defaults_and_messages(tmp_path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    path = write(
        tmp_path / "items.jsonl",
        GOOD,
        {"id": "b", "messages": messages, "group": "g", "stratum": "s", "answers": ["x"]},
    )
    first, second = load_items(path, "refusal")
    assert (first.group, first.stratum, first.text) == ("a", "all", "Hello?")
    assert (second.group, second.stratum) == ("g", "s")
    assert second.text == "system: Be brief.\nuser: Hi"
    assert second.messages == tuple(messages)
    assert item_from_row(json.loads(json.dumps(second.to_json()))) == second


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 2.5, "text": "x"}, "line 2: field 'id' is 2.5; it must be a string"),
        (
            {"id": "b"},
            r"line 2: no 'text' \(and no 'messages'\); found 'id'; map with --columns text=",
        ),
        ({"id": "b", "text": "x", "messages": []}, "line 2: give exactly one"),
        ({"id": "a", "text": "x"}, "line 2: id 'a' stands in line 1 already"),
        ({"id": "b", "text": "  "}, "line 2: field 'text' is empty"),
        ({"id": "b", "text": 3}, "line 2: field 'text' is 3; it must be a string"),
        ({"id": "b", "messages": []}, "line 2: field 'messages' must be a non-empty list"),
        ({"id": "b", "messages": ["x"]}, "line 2: each of 'messages'"),
        ({"id": "b", "messages": [{"role": "bot", "content": "x"}]}, "role 'bot'"),
        ({"id": "b", "messages": [{"role": "user", "content": ""}]}, "'content' is empty"),
        ({"id": "b", "messages": [{"role": "assistant", "content": "x"}]}, "last of 'messages'"),
        ({"id": "b", "text": "x", "answers": "7"}, "field 'answers' must be a list"),
        ({"id": "b", "text": "x", "choices": ["7", ""]}, "field 'choices' must be a list"),
        ({"id": "b", "text": "x", "meta": 7}, "field 'meta' must be an object"),
        ({"id": "b", "text": "x", "promt": "y"}, "unknown field 'promt'"),
        ({"id": "b", "text": "x", "task": "other"}, "field 'task' is 'other'"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path, row: dict, message: str) -> None:
    path = write(tmp_path / "items.jsonl", GOOD, row)
    with pytest.raises(ValueError, match=message) as error:
        load_items(path, "refusal")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "b", "text": "bad \\ud800 end"}', "line 2: holds half a character"),
        ('{"id": "b", "text": "x", "meta": {"p": NaN}}', "line 2: not JSON"),
        ("[" * 100_000, "line 2: not JSON"),
    ],
)
def test_what_json_cannot_hold_is_named_with_its_line(tmp_path, line: str, message: str) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=message):
        load_items(path, "refusal")


def test_a_byte_order_mark_is_no_fault(tmp_path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(GOOD) + "\r\n", encoding="utf-8-sig")
    assert [item.id for item in load_items(path, "refusal")] == ["a"]


def test_answers_where_the_task_needs_them(tmp_path) -> None:
    path = write(tmp_path / "items.jsonl", GOOD)
    with pytest.raises(ValueError, match="line 1: field 'answers' is missing"):
        load_items(path, "difficulty", needs_answers=True)


def test_no_file_and_no_items(tmp_path) -> None:
    with pytest.raises(ValueError, match="no file"):
        load_items(tmp_path / "nowhere.jsonl", "refusal")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="holds no item"):
        load_items(tmp_path / "empty.jsonl", "refusal")


def test_first_groups_never_cuts_a_group() -> None:
    groups = ["a", "b", "a", "c", "b", "c", "c"]
    items = [
        Item(str(i), "t", group, "s", ({"role": "user", "content": "x"},))
        for i, group in enumerate(groups)
    ]
    assert [item.group for item in first_groups(items, 5)] == ["a", "a", "b", "b"]
    assert len(first_groups(items, 7)) == 7
    assert first_groups(items, 1) == []


def test_what_all_conversations_begin_with_is_no_text_of_an_item() -> None:
    def item(*texts: str) -> Item:
        roles = ("user", "assistant")
        messages = tuple({"role": roles[i % 2], "content": text} for i, text in enumerate(texts))
        return Item("i", "t", "g", "s", messages)

    alike = [item("example", "answer", "one"), item("example", "answer", "two")]
    assert own_texts(alike) == ["one", "two"]
    unlike = [*alike, item("example", "other", "two")]
    assert own_texts(unlike)[2] == "assistant: other\nuser: two"
    assert own_texts([item("same"), item("same")]) == ["same", "same"]
    assert own_texts([item("a", "b", "one"), item("one")]) == [
        item("a", "b", "one").text,
        "one",
    ]
    assert own_texts([]) == []
