import json

import pytest

from experiments.records import (
    append_rows,
    json_number,
    read_rows,
    read_whole_rows,
    write_json,
    write_rows,
    write_text,
)


def test_rows_survive_line_separators_inside_strings(tmp_path) -> None:
    rows = [{"a": "one\u2028two\nthree\r"}, {"a": "é"}]
    write_rows(tmp_path / "rows.jsonl", rows)
    assert read_rows(tmp_path / "rows.jsonl") == rows


def test_torn_last_line_is_cut_before_the_next_append(tmp_path) -> None:
    path = tmp_path / "rows.jsonl"
    append_rows(path, [{"id": "a"}, {"id": "b"}])
    with path.open("a") as file:
        file.write('{"id": "c", "te')
    assert read_whole_rows(path) == [{"id": "a"}, {"id": "b"}]
    append_rows(path, [{"id": "c"}])
    assert read_rows(path) == [{"id": "a"}, {"id": "b"}, {"id": "c"}]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "results.json"
    write_text(path, "old")
    monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_text(path, "new")
    assert path.read_text() == "old"


def test_not_a_number_is_no_json(tmp_path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"auroc": float("nan")})
    assert not (tmp_path / "x.json").exists()
    assert json_number(float("nan")) is None
    assert json.dumps(json_number(0.12345678)) == "0.123457"


@pytest.mark.parametrize("line", ["{", "[1]", "3"])
def test_a_bad_line_is_named(tmp_path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1}\n\n' + line + "\n")
    with pytest.raises(ValueError, match="line 3"):
        read_rows(path)
