"""`selfprobe score self-execution association`: the published counts come out, and files are read as they are."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from experiments.self_execution import (
    AssociationScore,
    association_report,
    compare_published,
    read_association_run,
    read_published,
    score_association,
)
from experiments.self_execution.association_report import association_text
from tests.experiments.released_results import RELEASED, ScoreCommand, needs_data, score

__all__ = ["score"]
FOLDER = RELEASED / "association"


@pytest.fixture(scope="module")
def released() -> list[AssociationScore]:
    return score_association(
        [read_association_run(path) for path in sorted(FOLDER.glob("*-*.csv"))]
    )


@needs_data
def test_every_published_figure_comes_out(released: list[AssociationScore]) -> None:
    figures = association_report(released).figures
    comparison = compare_published(figures, read_published(FOLDER / "published.csv"))
    assert (comparison.n_equal, comparison.differences) == (8 * 9, ())


@needs_data
def test_counts_and_f1_are_the_published_ones(released: list[AssociationScore]) -> None:
    published = pd.read_csv(FOLDER / "published.csv").set_index("model")
    names = {one.replace("/", "-") for one in published.index}
    checked = 0
    for one in released:
        name = (
            one.model.replace("_", "-", 1) if "_" in one.model else one.model.removesuffix("-0324")
        )
        if name not in names:
            continue
        row = published.loc[name]
        assert [one.published[cell] for cell in ("TP", "FP", "TN", "FN")] == [
            row[cell] for cell in ("TP", "FP", "TN", "FN")
        ]
        assert one.published["f1_score"] == pytest.approx(row["f1_score"], abs=1e-9)
        never = one.readings["strict"].scores["never"]["accuracy"].estimate
        assert never == pytest.approx(row["baseline_false_accuracy"], abs=1e-9)
        checked += 1
    assert checked == len(published)


@needs_data
def test_never_and_the_others_lists_beat_every_self_prediction(
    released: list[AssociationScore],
) -> None:
    for one in released:
        minus = one.readings["strict"].self_minus
        assert minus["never"]["accuracy"].high < 0
        assert minus["others"]["kappa"].high < 0
        assert one.readings["strict"].scores["self"]["kappa"].low > 0


@needs_data
def test_the_others_lists_are_those_of_a_table_joined_by_hand(
    released: list[AssociationScore],
) -> None:
    listed = pd.DataFrame({one.model: one.run.listed for one in released})
    name = "qwen-qwen-2.5-7b-instruct"
    own, others = listed[name].dropna().astype(bool), listed.drop(columns=name)
    votes = others.loc[own.index]
    lead = (votes == True).sum(axis=1) - (votes == False).sum(axis=1)  # noqa: E712
    right = ((lead > 0) & own) | ((lead < 0) & ~own)
    (one,) = (one for one in released if one.model == name)
    assert one.readings["strict"].scores["others"]["accuracy"].estimate == pytest.approx(
        right.mean()
    )
    assert one.n_ties == (lead == 0).sum()


@needs_data
def test_the_page_shows_what_the_command_prints(released: list[AssociationScore]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "self-execution.md").read_text()
    for line in association_text(released).splitlines():
        assert line in page


HEADER = "Word,Predictions,Generated Words,Score\n"


def write(path: Path, *rows: tuple[object, object, object], header: str = HEADER) -> Path:
    cells = ['{},"{}","{}",1'.format(*row) for row in rows]
    path.write_text(header + "\n".join(cells) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sun = {"Hot": True, "moon": True, "tea": False, "star": False}
    write(
        tmp_path / "one.csv",
        ("Sun", sun, ["HOT", "star", "sky"]),
        ("Sea", {"salt": True}, ["ship"]),
    )
    write(
        tmp_path / "two.csv",
        ("Sun", {**sun, "moon": False}, ["hot", "day"]),
        ("Sea", {"salt": False}, ["salt"]),
    )
    return tmp_path


def test_counts_of_a_small_file(folder: Path) -> None:
    runs = [read_association_run(folder / f"{name}.csv") for name in ("one", "two")]
    one, _ = score_association(runs)
    # One: hot said and listed, moon and salt said and not, tea neither, star listed and not said.
    assert one.published == {
        "TP": 1,
        "FP": 2,
        "TN": 1,
        "FN": 1,
        "accuracy": pytest.approx(2 / 5),
        "precision": pytest.approx(1 / 3),
        "recall": pytest.approx(1 / 2),
        "f1_score": pytest.approx(2 / 5),
        "baseline_false_accuracy": pytest.approx(3 / 5),
    }
    scores = one.readings["strict"].scores
    assert scores["never"]["accuracy"].estimate == pytest.approx(3 / 5)
    # Two listed hot and salt, and said hot.
    assert scores["others"]["accuracy"].estimate == pytest.approx(3 / 5)
    assert scores["others_said"]["accuracy"].estimate == pytest.approx(4 / 5)


def test_a_single_model_has_no_others(folder: Path) -> None:
    (one,) = score_association([read_association_run(folder / "one.csv")])
    assert set(one.readings["strict"].scores) == {"self", "never"}


def test_strict_counts_an_unreadable_answer_as_wrong_and_lenient_leaves_it_out(
    folder: Path,
) -> None:
    write(folder / "one.csv", ("Sun", {"hot": "true", "tea": "maybe", "x": None}, ["hot"]))
    (one,) = score_association([read_association_run(folder / "one.csv")])
    assert one.n_unparsed == 2
    assert one.readings["strict"].scores["self"]["accuracy"].estimate == pytest.approx(1 / 3)
    assert one.readings["lenient"].scores["self"]["accuracy"].estimate == 1
    assert [one.published[cell] for cell in ("TP", "FP", "TN", "FN")] == [1, 0, 0, 0]


def test_unreadable_cells_are_counted_and_never_run(folder: Path) -> None:
    trap = folder / "trap"
    write(
        folder / "one.csv",
        ("Sun", {"hot": True}, ["hot"]),
        ("Sea", f"__import__('pathlib').Path('{trap}').touch()", ["salt"]),
        ("Sky", {"blue": True}, "[" * 5000),
        ("Ice", {"cold": True}, "['cold', 3]"),
        ("Fog", "", ["gray"]),
        ("Sand", [True], ["dune"]),
    )
    run = read_association_run(folder / "one.csv")
    assert (run.n_targets, run.n_unparsed_rows) == (1, 5)
    assert association_text(score_association([run])).endswith("\none: 5 unparsed rows")
    assert not trap.exists()


def test_the_last_row_of_a_target_counts(folder: Path) -> None:
    write(folder / "one.csv", ("Sun", {"hot": True}, ["cold"]), ("Sun", {"hot": False}, ["hot"]))
    run = read_association_run(folder / "one.csv")
    assert (run.n_targets, run.n_repeated) == (1, 1)
    assert (run.predicted["Sun", "hot"], run.listed["Sun", "hot"]) == (False, True)


def test_a_byte_order_mark_and_other_columns_are_no_matter(folder: Path) -> None:
    path = write(folder / "one.csv", ("Sun", {"hot": True}, ["hot"]))
    path.write_text("\ufeff" + path.read_text(), encoding="utf-8")
    assert read_association_run(path).listed == {("Sun", "hot"): True}


def test_the_command_writes_json_csv_and_a_figure(folder: Path, score: ScoreCommand) -> None:
    found = score.with_every_output(folder, "association", folder / "one.csv", folder / "two.csv")
    assert "| one   | 2       | 5     | 1  | 2  | 1  | 1  |" in found.text
    one, two = found.json["models"]
    assert (one["model"], two["model"]) == ("one", "two")
    assert one["published_metrics"]["f1_score"] == 0.4
    assert one["strict"]["scores"]["self"]["accuracy"]["estimate"] == 0.4
    assert len(found.table) == 2 * 2 * 4


def test_a_difference_from_the_published_figures_is_a_failure(
    folder: Path, score: ScoreCommand
) -> None:
    table = folder / "published.csv"
    table.write_text("model,TP,f1_score,other\nOne,1,0.4,7\nthree,1,1,1\n")
    given = ("association", folder / "one.csv", "--published", table)
    status, out, _ = score(*given)
    assert status == 0
    assert "2 published figures come out." in out
    assert "not compared: other of one: no number" in out
    assert "not compared: three: no file given" in out
    table.write_text("model,TP,f1_score\none,2,0.40000001\n")
    status, out, _ = score(*given)
    assert status == 1
    assert "one, TP: published 2, here 1: unexplained" in out
    assert "one, f1_score: published 0.40000001, here 0.4: unexplained" in out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; needed are the columns 'Word', 'Predictions', 'Generated Words'"),
        (b"model,TP\nx,1\n", "has 'model', 'TP'; needed are the columns 'Word'"),
        (HEADER.encode(), "holds no result"),
        (b"Word,Predictions,Generated Words\nS\xfcd,{},[]\n", "is not UTF-8 text"),
        (HEADER.encode() + b"Sun,x,y,1\n", "holds no target with predictions and words to read"),
        (HEADER.encode() + b"Sun,x\n", "line 2: has not as many fields as the header"),
    ],
)
def test_bad_files_are_bad_arguments(
    folder: Path, score: ScoreCommand, content: bytes, said: str
) -> None:
    (folder / "one.csv").write_bytes(content)
    status, out, err = score("association", folder / "one.csv")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_two_files_of_a_model_and_missing_ones_are_bad_arguments(
    folder: Path, score: ScoreCommand
) -> None:
    file = folder / "one.csv"
    assert "model 'one' is given twice" in score("association", file, file)[2]
    assert "file: no file" in score("association", folder / "none.csv")[2]
    assert "published: no file" in score("association", file, "--published", folder / "none.csv")[2]
    status, _, err = score("association", file, "--json", folder / "none" / "out.json")
    assert (status, err.split(";")[0]) == (2, f"selfprobe: json: no folder {folder / 'none'}")
