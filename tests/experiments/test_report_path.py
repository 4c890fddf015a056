from __future__ import annotations

import re
from typing import Any

import pytest

from experiments.report.evidence import deciding_row, evidence_rows, link_of
from experiments.report.formatting import MISSING
from experiments.report.path import draw_path
from experiments.report.phrases import sentence
from experiments.report.profile import HEIGHT, WIDTH, profile
from experiments.report.verdict import verdict
from tests.experiments import made_up_results as made_up


def breakdown(stage: str, **verdicts: str) -> dict[str, Any]:
    """Of the made-up evidence; a verdict is changed by the first word of the row's name."""
    rows = made_up.evidence()
    for row in rows:
        row["verdict"] = verdicts.get(row["name"].split()[0].replace("-", "_"), row["verdict"])
    return {"stage": stage, "evidence": rows, "sentence": ""}


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("not_beyond_text", "task probe beats the text"),
        ("not_transported", "answer-slot probe is as good as the task probe"),
        ("not_read_out", "words are as good as the answer-slot probe"),
        ("unparsed", "answers can be parsed"),
        ("miscalibrated", "answers are not biased"),
        ("faithful", "words are as good as the task probe"),
    ],
)
def test_each_stage_rests_on_one_inequality_that_is_marked(stage: str, name: str) -> None:
    found = breakdown(stage)
    assert (deciding_row(found) or {})["name"] == name
    assert [row.name for row in evidence_rows(found) if row.decides] == [name]


def test_where_nothing_beats_the_text_at_the_slot_the_better_reader_decides() -> None:
    rows = breakdown("not_transported", answer_slot="does not beat", task="does not beat")
    assert (deciding_row(rows) or {})["name"] == "answer-slot probe beats the text"
    rows["evidence"][2]["estimate"] = 0.07
    assert (deciding_row(rows) or {})["name"] == rows["evidence"][2]["name"]
    rows["evidence"][2] |= {"estimate": None, "ci": [None, None]}
    assert (deciding_row(rows) or {})["name"] == "answer-slot probe beats the text"
    assert evidence_rows(rows)[2].estimate == MISSING
    rows["evidence"][3]["verdict"] = "lost"
    assert (deciding_row(rows) or {})["name"] == rows["evidence"][3]["name"]


def test_an_undetermined_stage_rests_on_the_inequality_that_its_sentence_names() -> None:
    found = breakdown("undetermined")
    found["sentence"] = (
        "The intervals cannot decide: answer-slot probe is as good as the task probe?"
    )
    assert deciding_row(found) is found["evidence"][3]
    found["sentence"] = (
        "No stage's conditions hold (words are as good as the task probe: falls short)."
    )
    assert deciding_row(found) is found["evidence"][7]
    found["open_question"] = "answer-slot probe beats the text"
    assert deciding_row(found) is found["evidence"][1]
    assert deciding_row({"stage": "undetermined"}) is None


def test_the_evidence_says_what_would_decide() -> None:
    found = breakdown("not_read_out")
    found["evidence"][2]["groups_needed"] = None
    rows = evidence_rows(found)
    assert rows[0].would_decide == "decided"
    assert rows[2].would_decide == "no number of groups, if the estimate stays"
    assert rows[3].would_decide == "about 410 groups, if the estimate stays"
    assert (rows[4].estimate, rows[4].interval, rows[4].margin) == (
        "-0.30",
        "[-0.38, -0.22]",
        "0.08",
    )
    assert rows[5].estimate == "0.97"


def test_every_inequality_has_its_place_on_the_path() -> None:
    assert [link_of(row["name"]) for row in made_up.evidence()] == [0, 1, 1, 1, 2, None, None, None]
    assert link_of("words are as good as the moved task probe") == 2


def test_the_links_show_what_they_rest_on_and_where_the_loss_lies() -> None:
    result = made_up.task_result(stage="not_read_out")
    drawing = draw_path(result, made_up.location())
    shown = [(link.estimate, link.interval, link.against) for link in drawing.links]
    assert shown == [
        ("+0.10", "[0.06, 0.14]", "over the text"),
        ("-0.05", "[-0.10, 0.00]", "against the layers"),
        ("-0.30", "[-0.38, -0.22]", "against the slot"),
    ]
    assert [link.place for link in drawing.links] == [(), (), ("layer 12 [9, none]", "prompt_last")]
    assert drawing.loss.startswith("At the answer slot the words fall behind")
    assert "between answer slot and words at layer 12 [9, none], prompt_last" in drawing.description
    unlocated = draw_path(result)
    assert unlocated.links[2].place == ()
    assert unlocated.loss == result["breakdown"]["sentence"]
    assert unlocated.stations[3].profile is None
    lost = draw_path(made_up.task_result(stage="not_transported"))
    assert [(link.state, link.estimate) for link in lost.links][1:] == [
        ("lost", "-0.05"),
        ("after", ""),
    ]


def test_the_slot_shows_the_probe_that_the_diagnosis_took() -> None:
    result = made_up.task_result(stage="not_read_out")
    result["transferred_probe"] = made_up.predictor(0.91)
    slot = draw_path(result, made_up.location()).stations[2]
    assert (slot.reader, slot.look) == ("probe", "report_probe")
    assert "0.91" not in sentence(verdict("a model", result))
    for row in result["breakdown"]["evidence"]:
        row["name"] = row["name"].replace("answer-slot probe is", "moved task probe is")
        row["name"] = row["name"].replace("as the answer-slot probe", "as the moved task probe")
    slot = draw_path(result, made_up.location()).stations[2]
    assert (slot.reader, slot.look) == ("layers' probe, moved", "transferred_probe")
    assert slot.score.startswith("0.91")
    assert slot.profile is not None
    assert draw_path(result).stations[2].profile is None
    shown = next(
        phrase for phrase in verdict("a model", result) if "also at the slot" in phrase.words
    )
    assert shown.figures.startswith("AUROC 0.91")


def test_a_profile_stands_on_chance_and_marks_the_layer() -> None:
    drawn = profile([0.5, 0.75, None, 1.0, 0.2], [0, 4, 8, 12, 16], marked=12)
    assert drawn is not None
    bars = re.findall(r"M([\d.]+) ([\d.]+)v-([\d.]+)", drawn.bars)
    assert [float(x) for x, _, _ in bars] == pytest.approx([10, 30, 50, 70, 90])
    heights = [float(height) for _, _, height in bars]
    assert heights[1] == pytest.approx(HEIGHT / 2)
    assert heights[3] == pytest.approx(HEIGHT)
    assert heights[2] == 0
    assert 0 < heights[0] == heights[4] < 1
    assert drawn.marked == pytest.approx(0.7 * WIDTH)
    assert drawn.about == "layers 0 to 16"
    assert profile([None, None], [0, 1], None) is None
