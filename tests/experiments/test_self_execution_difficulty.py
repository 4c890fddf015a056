"""`selfprobe score self-execution difficulty`: every published figure and group score comes out, and files are read."""

from __future__ import annotations

import json
import shutil
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from experiments.self_execution import (
    DifficultyScore,
    compare_published,
    difficulty_report,
    read_difficulty_run,
    read_published,
    read_questions,
    score_difficulty,
)
from experiments.self_execution.difficulty_files import Questions
from experiments.self_execution.difficulty_report import difficulty_text
from experiments.self_execution.rankings import best_constant, share_in_order
from experiments.tasks.forms import Ranking
from tests.experiments.released_results import RELEASED, ScoreCommand, needs_data, score

__all__ = ["score"]
FOLDER = RELEASED / "difficulty"
ORDERS = st.permutations(range(4))


@pytest.fixture(scope="module")
def questions() -> Questions:
    return read_questions(FOLDER / "question_groups.csv")


@pytest.fixture(scope="module")
def released(questions: Questions) -> list[DifficultyScore]:
    files = sorted(FOLDER.glob("*_question_sets.csv"))
    return score_difficulty([read_difficulty_run(path) for path in files], questions)


@needs_data
def test_every_published_figure_score_and_measured_ranking_comes_out(
    released: list[DifficultyScore], questions: Questions
) -> None:
    figures = difficulty_report(released, questions).figures
    comparison = compare_published(figures, read_published(FOLDER / "published.csv"))
    assert comparison.differences == ()
    # Five figures of one model are of answers, which were not released.
    assert comparison.n_equal == 8 * 12 - 5
    assert comparison.n_cells_equal == 8 * 250 + 7 * 250


@needs_data
def test_group_scores_are_those_of_the_file(released: list[DifficultyScore]) -> None:
    n_zero = 0
    for one in released:
        table = pd.read_csv(FOLDER / f"{one.model}_question_sets.csv")
        given = table.set_index("group_id")["score"].dropna().to_dict()
        assert one.scores == pytest.approx(given, abs=1e-12)
        n_zero += sum(row.kind == "no order" for row in one.run.sets.values())
    assert n_zero == 5  # of mistral-7b: "C,B,A,D" and the like


@needs_data
def test_what_others_find_hard_beats_every_own_ranking(released: list[DifficultyScore]) -> None:
    for one in released:
        lenient = one.readings["lenient"]
        assert lenient.self_minus["others"].high < 0
        assert lenient.share["self"].low > 0.5
        assert lenient.self_minus["length"].low > 0


@needs_data
def test_the_page_shows_what_the_command_prints(released: list[DifficultyScore]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "self-execution.md").read_text()
    for line in difficulty_text(released).splitlines():
        assert line in page


@given(ORDERS, ORDERS)
def test_the_share_in_order_is_that_of_the_ranking_task_and_of_kendall(
    first: list[int], second: list[int]
) -> None:
    places = [np.argsort(order).astype(float) for order in (first, second)]
    share = float(share_in_order(*places))
    assert share == pytest.approx(Ranking(len(first)).score(first, [[one] for one in second]))
    assert share == pytest.approx((1 + kendalltau(*places).statistic) / 2)


@given(ORDERS)
def test_saying_nothing_has_the_half_of_a_random_order(order: list[int]) -> None:
    measured = np.argsort(order).astype(float)
    assert share_in_order(np.zeros(4), measured) == 0.5
    every = np.array(list(permutations(range(4))), dtype=float)
    assert share_in_order(every, measured).mean() == pytest.approx(0.5)


def test_the_best_constant_is_the_order_that_most_groups_have() -> None:
    measured = np.array([[2, 0, 1, 3], [2, 0, 1, 3], [0, 1, 2, 3]], dtype=float)
    assert best_constant(measured).tolist() == [2, 0, 1, 3]


SETS = "group_id,llm_ranking,combined_duration,total_individual_duration,measured_ranking,score,model\n"
RESULTS = "group_id,question_id,duration,is_correct\n"
QUESTIONS = "group_id,q_num_in_group,original_question_id,question,choices_str\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one_question_sets.csv").write_text(
        SETS + 'G1,"Q1,Q2,Q3,Q4",10,100,"Q1,Q2,Q4,Q3",0.8333333333333334,m\n'
        'G2,"Q4,Q3,Q2,Q1",20,40,"Q1,Q2,Q3,Q4",0.0,m\n'
        'G3,,30,80,"Q2,Q1,Q3,Q4",,m\n'
        'G4,"A,B,C,D",40,60,"Q2,Q1,Q3,Q4",0.0,m\n'
    )
    answers = {
        "G1": [(10, True), (20, True), (50, False), (20, False)],
        "G2": [(10, True), (10, True), (10, True), (10, True)],
        "G3": [(30, True), (20, True), (10, False), (20, False)],
        "G4": [(10, False), (20, True), (10, False), (20, False)],
    }
    lines = [
        f"{group},{group}-{i},{duration},{correct}"
        for group, rows in answers.items()
        for i, (duration, correct) in enumerate(rows, start=1)
    ]
    (tmp_path / "one_individual_results.csv").write_text(RESULTS + "\n".join(lines) + "\n")
    (tmp_path / "two_question_sets.csv").write_text(
        SETS + 'G1,"Q4,Q3,Q2,Q1",10,100,"Q1,Q2,Q3,Q4",0.0,m\n'
        'G2,"Q1,Q2,Q3,Q4",20,40,"Q4,Q3,Q2,Q1",0.0,m\n'
        'G3,"Q2,Q1,Q3,Q4",30,80,"Q2,Q1,Q3,Q4",1.0,m\n'
    )
    lines = [f"G{g},{i},G{g}-{i},{'x' * i},A. 1" for g in (1, 2, 3, 4) for i in (1, 2, 3, 4)]
    (tmp_path / "question_groups.csv").write_text(QUESTIONS + "\n".join(lines) + "\n")
    return tmp_path


def scored(folder: Path, *names: str) -> list[DifficultyScore]:
    runs = [read_difficulty_run(folder / f"{name}_question_sets.csv") for name in names]
    return score_difficulty(runs, read_questions(folder / "question_groups.csv"))


def test_scores_of_a_small_file(folder: Path) -> None:
    one, _ = scored(folder, "one", "two")
    assert one.scores == {"G1": pytest.approx(5 / 6), "G2": 0.0, "G4": 0.0}
    strict, lenient = one.readings["strict"], one.readings["lenient"]
    assert (strict.n_items, lenient.n_items) == (4, 2)
    assert strict.share["self"].estimate == pytest.approx((5 / 6) / 4)
    assert lenient.share["self"].estimate == pytest.approx((5 / 6) / 2)
    # Two measured as one but for G1's last pair, the reverse of G2, as one in G3, and nothing of G4.
    assert strict.share["others"].estimate == pytest.approx((5 / 6 + 0 + 1 + 0.5) / 4)
    assert strict.share["others_said"].estimate == pytest.approx((1 / 6 + 1 + 1 + 0.5) / 4)
    for same in ("length", "listed"):
        assert strict.share[same].estimate == pytest.approx((5 / 6 + 1 + 5 / 6 + 5 / 6) / 4)
    assert strict.self_minus["listed"].estimate == pytest.approx((5 / 6 - 3.5) / 4)


def test_published_metrics_of_a_small_file(folder: Path) -> None:
    (one,) = scored(folder, "one")
    questions = read_questions(folder / "question_groups.csv")
    metrics = difficulty_report([one], questions).figures[0].metrics
    deviations = [np.std(tokens, ddof=1) for tokens in ([10, 20, 50, 20], [10] * 4)]
    deviations += [np.std(tokens, ddof=1) for tokens in ([30, 20, 10, 20], [10, 20, 10, 20])]
    assert metrics == {
        "failed_to_order": 1,
        "have_score": 3,
        "correct_individual_answers_count": 9,
        "total_answered_questions": 16,
        "avg_question_order_score": pytest.approx((5 / 6) / 3),
        "adjusted_avg_question_order_score": pytest.approx((5 / 6) / 3 * 4 / 3),
        "group_individual_duration_avg": pytest.approx(70 / 4),
        "group_individual_duration_std": pytest.approx(np.mean(deviations)),
        "group_individual_duration_std_percentage": pytest.approx(
            np.mean(deviations / np.array([25, 10, 20, 15]))
        ),
        "group_individual_duration_std_percentage_median": pytest.approx(
            np.median(deviations / np.array([25, 10, 20, 15]))
        ),
        "combined_duration_avg": 25,
        "combined_duration_std": pytest.approx(np.std([10, 20, 30, 40], ddof=1)),
    }


def test_pairs_by_what_decides_them(folder: Path) -> None:
    one, _ = scored(folder, "one", "two")
    # G1: four pairs of a right and a wrong answer, all in order; Q1-Q2 in order, Q3-Q4 not. G2: nothing decides.
    assert one.pair_kinds == {}  # a single group has no interval
    path = folder / "one_question_sets.csv"
    path.write_text(path.read_text().replace("G3,,", 'G3,"Q1,Q2,Q3,Q4",'))
    one, _ = scored(folder, "one", "two")
    assert one.pair_kinds["correctness"].estimate == 1
    assert one.pair_kinds["tokens"].estimate == pytest.approx(2 / 4)


def test_without_answers_or_questions_the_rest_is_scored(folder: Path, score: ScoreCommand) -> None:
    (folder / "question_groups.csv").unlink()
    (folder / "one_individual_results.csv").unlink()
    status, out, _ = score("difficulty", folder / "one_question_sets.csv", "--json", "-")
    assert status == 0
    found = json.loads(out)
    (one,) = found["models"]
    assert (one["n_groups_without_ranking"], one["n_rankings_that_are_no_order"]) == (1, 1)
    assert "length" not in one["strict"]["share"]
    assert "total_answered_questions" not in one["published_metrics"]
    assert found["questions"] is None


def test_the_command_writes_json_csv_and_a_figure(folder: Path, score: ScoreCommand) -> None:
    files = [folder / f"{name}_question_sets.csv" for name in ("one", "two")]
    found = score.with_every_output(folder, "difficulty", *files)
    assert "share of pairs in order, strict" in found.text
    assert [model["model"] for model in found.json["models"]] == ["one", "two"]
    assert found.json["models"][0]["group_scores"]["G1"] == pytest.approx(5 / 6)
    assert len(found.table) == 2 * 2 * 6


def test_a_score_or_a_measured_ranking_that_does_not_follow_is_named(
    folder: Path, score: ScoreCommand
) -> None:
    path, table = folder / "one_question_sets.csv", folder / "published.csv"
    table.write_text("model_name,failed_to_order\nOne,1\n")
    given = ("difficulty", path, "--published", table)
    status, out, _ = score(*given)
    assert (status, "8 cells of the files come out" in out) == (0, True)
    text = path.read_text()
    path.write_text(
        text.replace('"Q1,Q2,Q3,Q4",0.0', '"Q1,Q3,Q2,Q4",0.25').replace(",0.0,m", ",,m")
    )
    status, out, _ = score(*given)
    assert status == 1
    assert "one, score of G2: published 0.25, here 0.1666666667: unexplained" in out
    assert (
        "one, measured ranking of G2: published Q1,Q3,Q2,Q4, here Q1,Q2,Q3,Q4: unexplained" in out
    )
    assert "one, score of G4: published none, here 0: unexplained" in out


def test_unreadable_cells_are_counted(folder: Path) -> None:
    path = folder / "one_question_sets.csv"
    path.write_text(path.read_text().replace('80,"Q2,Q1,Q3,Q4"', 'nan,"Q2,Q2,Q3,Q4"'))
    (one,) = scored(folder, "one")
    assert one.groups == ("G1", "G2", "G4")
    (row,) = difficulty_report([one], None).json["models"]
    assert (row["n_groups"], row["n_groups_without_measured_ranking"]) == (4, 1)
    answers = folder / "one_individual_results.csv"
    answers.write_text(answers.read_text().replace("G1-1,10,True", "G1-1,many,perhaps"))
    (one,) = scored(folder, "one")
    cells = (
        difficulty_report([one], read_questions(folder / "question_groups.csv")).figures[0].cells
    )
    assert "measured ranking of G1" not in {cell.name for cell in cells}


def test_answers_without_tokens_have_no_relative_deviation(
    folder: Path, score: ScoreCommand
) -> None:
    answers = folder / "one_individual_results.csv"
    answers.write_text(RESULTS + "".join(f"G1,G1-{i},0,True\n" for i in (1, 2, 3, 4)))
    status, out, _ = score("difficulty", folder / "one_question_sets.csv", "--json", "-")
    assert status == 0
    figures = json.loads(out)["models"][0]["published_metrics"]
    assert figures["group_individual_duration_std"] == 0
    assert figures["group_individual_duration_std_percentage"] is None


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "one_question_sets.csv",
            b"",
            "is empty; needed are the columns 'group_id', 'llm_ranking'",
        ),
        ("one_question_sets.csv", b"group_id,score\nG1,1\n", "has 'group_id', 'score'; needed are"),
        ("one_question_sets.csv", SETS.encode(), "holds no result"),
        ("one_question_sets.csv", SETS.encode() + b"G1,,1,1,,,m\n", "holds no measured ranking"),
        ("one_question_sets.csv", SETS.encode() + b'G1,,1,1,"Q1,Q2,Q3,Q4",,m\n', "ranks no group"),
        ("one_question_sets.csv", SETS.encode() + b"\xff,,1,1,,,m\n", "is not UTF-8 text"),
        ("one_individual_results.csv", b"a,b\n1,2\n", "needed are the columns 'group_id'"),
        ("question_groups.csv", QUESTIONS.encode() + b"G1,1,a,b,c\n", "group 'G1' of"),
        (
            "question_groups.csv",
            QUESTIONS.encode() + b"H,1,a,b,c\nH,2,b,b,c\nH,3,c,b,c\nH,4,d,b,c\n",
            "no group 'G1'",
        ),
    ],
)
def test_bad_files_are_bad_arguments(
    folder: Path, score: ScoreCommand, name: str, content: bytes, said: str
) -> None:
    (folder / name).write_bytes(content)
    status, out, err = score("difficulty", folder / "one_question_sets.csv")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_two_files_of_a_model_are_a_bad_argument(folder: Path, score: ScoreCommand) -> None:
    (folder / "more").mkdir()
    file = folder / "one_question_sets.csv"
    shutil.copy(file, folder / "more")
    assert "model 'one' is given twice" in score("difficulty", file, folder / "more" / file.name)[2]
