"""A user's files with columns of their own names, among them files of the reference data."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from experiments.item_columns import parse_columns
from experiments.items import load_items
from experiments.self_execution import read_xstest

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def csv_file(tmp_path: Path, text: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / "items.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_columns_are_read_as_field_equals_column() -> None:
    assert parse_columns("text=prompt, id = key") == {"text": "prompt", "id": "key"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text", "columns: 'text' is not field=column"),
        ("text=", "columns: 'text=' is not field=column"),
        ("text=a,text=b", "columns: 'text' stands there twice"),
        ("txt=prompt", "columns: no field 'txt'; allowed are id, text"),
    ],
)
def test_columns_that_say_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_columns(text)


def test_a_csv_with_mapped_columns(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path,
        "key,prompt,pair,kind,note\r\n"
        'x1,"Say ""hi"", or\r\nbye",p,greeting,left alone\r\n'
        ",,,,\r\n"
        "x2,Grüße?,,,\r\n",
        encoding="utf-8-sig",
    )
    first, second = load_items(
        path, "refusal", columns=parse_columns("text=prompt,id=key,group=pair,stratum=kind")
    )
    assert (first.id, first.text, first.group, first.stratum) == (
        "x1",
        'Say "hi", or\r\nbye',
        "p",
        "greeting",
    )
    assert (second.id, second.text, second.group, second.stratum) == ("x2", "Grüße?", "x2", "all")


def test_without_ids_rows_are_numbered_and_equal_texts_are_one_group(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "text\nHello?\nWho?\nHello?\n")
    items = load_items(path, "refusal")
    assert [item.id for item in items] == ["1", "2", "3"]
    assert [item.group for item in items] == ["1", "2", "1"]


def test_json_lines_with_mapped_columns(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    row = {"number": 7, "prompt": "Red or blue?", "options": ["A. red", "B. blue"], "key": ["b"]}
    path.write_text(json.dumps(row | {"rest": 1}) + "\n")
    columns = parse_columns("id=number,text=prompt,choices=options,answers=key")
    (item,) = load_items(path, "difficulty", columns=columns, needs_answers=True)
    assert (item.id, item.answers, item.meta["choices"]) == ("7", ("blue",), ["red", "blue"])


@pytest.mark.parametrize(
    ("choices", "answer", "expected"),
    [
        ("A. red|B. blue", "B", (["red", "blue"], ("blue",))),
        ("A) red | B) blue", "red", (["red", "blue"], ("red",))),
        ("B|A", "A", (["B", "A"], ("A",))),
        ("Mr. A. Smith|A. Jones", "b", (["Mr. A. Smith", "A. Jones"], ("A. Jones",))),
        ("red|blue", "AB", (["red", "blue"], ("AB",))),
    ],
)
def test_choices_lose_their_letters_and_answers_may_be_letters(
    tmp_path: Path, choices: str, answer: str, expected: tuple
) -> None:
    path = csv_file(tmp_path, f"text,choices,answers\nWhich?,{choices},{answer}\n")
    (item,) = load_items(path, "difficulty")
    assert (item.meta["choices"], item.answers) == expected


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("id,prompt\n1,x\n", "", r"items.csv: no 'text' .*found 'id', 'prompt'; map with --columns text=prompt"),
        ("id,prompt\n1,x\n", "text=promt", "no 'promt' for 'text'; found 'id', 'prompt'; map with .*text=prompt"),
        ("id,text\n1,x\n", "group=pair", "no 'pair' for 'group'; found .*map with --columns group=COLUMN"),
        ("id;prompt\n1;x\n", "", "found 'id;prompt'; .*separate the columns by commas"),
        ("id,text\n1,x\n1,y\n", "", "line 3: id '1' stands in line 2 already"),
        ("id,text\n1,x\n2,\n", "", "line 3: field 'text' is empty"),
        ("id,text\n1,x,y\n", "", "line 2: has not as many fields as the header"),
        ("id,text,text\n1,x,y\n", "", "the header names 'text' twice"),
        ("id,text\n", "", "holds no item"),
        ("", "", "holds no item"),
        ("id,prompt\n1, \n", "text=prompt", "line 2: field 'text' is empty"),
        ('id,text\n1,"x\n', "", "not CSV"),
    ],
)  # fmt: skip
def test_a_fault_is_one_line(tmp_path: Path, content: str, columns: str, message: str) -> None:
    path = csv_file(tmp_path, content)
    with pytest.raises(ValueError, match=message) as error:
        load_items(path, "refusal", columns=parse_columns(columns) if columns else None)
    assert "\n" not in str(error.value)


def test_text_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "id,text\n1,Grüße\n", encoding="latin-1")
    with pytest.raises(ValueError, match=r"is not UTF-8 text .*; save it as UTF-8"):
        load_items(path, "refusal")


def test_answers_are_asked_for_where_they_are_needed(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "text,answers\nTwo and two?,4\nThree?,\n")
    with pytest.raises(ValueError, match="line 3: field 'answers' is missing"):
        load_items(path, "difficulty", needs_answers=True)


def test_contrast_pairs_of_xstest_are_its_groups() -> None:
    path = SHARED / "xstest" / "prompts.csv"
    if not path.is_file():
        pytest.skip(f"no {path}")
    items = load_items(path, "refusal", columns=parse_columns("text=prompt,stratum=label"))
    paired = read_xstest(path)
    assert [(item.id, item.text, item.group) for item in items] == list(
        zip(paired.ids, paired.texts, paired.pairs, strict=True)
    )
    assert Counter(Counter(item.group for item in items).values()) == {1: 50, 2: 200}
    assert {item.meta["type"] for item in items} == set(paired.types)
    by_type = load_items(path, "refusal", columns=parse_columns("text=prompt,group=type"))
    assert len({item.group for item in by_type}) == 18


def test_the_questions_of_the_published_benchmark_are_read_as_they_are() -> None:
    path = SHARED / "self_execution_benchmark" / "difficulty" / "question_groups.csv"
    if not path.is_file():
        pytest.skip(f"no {path}")
    columns = "text=question,group=group_id,choices=choices_str,answers=answer"
    items = load_items(path, "difficulty", columns=parse_columns(columns), needs_answers=True)
    assert len(items) == 1000
    assert len({item.group for item in items}) == 250
    assert all(item.answers[0] in item.meta["choices"] for item in items)
