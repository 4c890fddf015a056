from __future__ import annotations

from pathlib import Path

import pytest

from experiments.prompt_files import read_prompts
from hooks import Prompt


def test_the_three_forms_of_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"id": "a", "prompt": "Will you?", "group": "g", "note": "left alone"}\n\n'
        '{"id": "b", "messages": [{"role": "user", "content": "Say \\"yes\\"."}], "quote": "yes"}\n'
        '{"id": "c", "text": "The capital of France is"}\n',
        encoding="utf-8",
    )
    rows = read_prompts(path)
    assert [row.prompt for row in rows] == [
        Prompt.chat("a", "Will you?"),
        Prompt.chat("b", 'Say "yes".', quote="yes"),
        Prompt(id="c", text="The capital of France is"),
    ]
    assert [row.group for row in rows] == ["g", "b", "c"]


def test_csv_with_quotes_line_breaks_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "prompts.csv"
    path.write_text(
        'id,prompt,group\n1,"Will you, or\nwill you not?",g\n2,ünd,g\n', encoding="utf-8-sig"
    )
    rows = read_prompts(path)
    assert [row.prompt.instruction for row in rows] == ["Will you, or\nwill you not?", "ünd"]
    assert [row.prompt.id for row in rows] == ["1", "2"]
    assert {row.group for row in rows} == {"g"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", "", "holds no prompt"),
        ("p.jsonl", '{"id": "a"}', "line 1: give exactly one of the fields messages, prompt, text"),
        ("p.jsonl", '{"id": "a", "prompt": "b", "text": "c"}', "line 1: give exactly one"),
        ("p.jsonl", '{"prompt": "b"}', "line 1: field 'id' is missing"),
        ("p.jsonl", '{"id": 7, "prompt": "b"}', "line 1: field 'id' is 7; it must be a string"),
        ("p.jsonl", '{"id": "a", "prompt": " "}', "line 1: field 'prompt' is empty"),
        ("p.jsonl", '{"id": "a", "messages": []}', "line 1: field 'messages' must be"),
        (
            "p.jsonl",
            '{"id": "a", "messages": [{"role": "assistant", "content": "x"}]}',
            "line 1: the last of 'messages' must have role 'user'",
        ),
        ("p.jsonl", '{"id": "a", "prompt": "b", "quote": "c"}', "line 1: .* quote 'c' does not"),
        (
            "p.jsonl",
            '{"id": "a", "prompt": "b"}\n{"id": "a", "prompt": "c"}',
            "line 2: id 'a' stands in line 1 already",
        ),
        ("p.jsonl", '{"id": "a", ', "line 1: not JSON"),
        ("p.jsonl", "[]", "line 1: holds"),
        ("p.csv", "id,prompt\na", "line 2: has not as many fields as the header"),
        ("p.csv", "id,prompt\na,b,c", "line 2: has not as many fields as the header"),
        ("p.csv", 'id,prompt\na,"b', "not CSV"),
        ("p.csv", "prompt\nb", "line 2: field 'id' is missing"),
        ("p.csv", "id,prompt\n", "holds no prompt"),
    ],
)
def test_bad_files_are_named_with_their_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as refusal:
        read_prompts(path)
    assert "\n" not in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="prompts: no file"):
        read_prompts(tmp_path)
    for name in ("p.csv", "p.jsonl"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00id")
        with pytest.raises(ValueError, match="is not UTF-8 text"):
            read_prompts(tmp_path / name)
