from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.report import Beside, write_figures, write_page
from experiments.report.disagreement import Text, disagreements
from experiments.report.formatting import MISSING, coded, estimate, number, p_value, readable
from experiments.report.path import draw_path
from experiments.report.verdict import STAGES, sentence, verdict
from tests.experiments import made_up_results as made_up

HOSTILE = (
    "<script>alert(1)</script><img src=http://evil.example/x.png onerror=alert(2)> {{ 7*7 }} & \x00"
)
UNEARNED = ("introspect", "privileged", "causal")


class Elements(HTMLParser):
    """Every tag with its attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def page(
    folder: Path,
    results: dict[str, Any],
    scores: pd.DataFrame,
    *,
    pictures: bool = False,
    beside: Beside | None = None,
) -> str:
    figures = write_figures(results, scores, folder / "figures") if pictures else {}
    path = write_page(results, scores, figures, folder / "report.html", beside=beside or Beside())
    return path.read_text(encoding="utf-8")


def unearned(text: str) -> list[str]:
    """Words on a page that only other tests could earn it; a command is no claim."""
    plain = text.lower().replace("selfprobe causal run", "")
    return [word for word in UNEARNED if word in plain]


def said(**changes: Any) -> str:
    """The sentence of the made-up refusal task, its parts changed."""
    result = made_up.task_result(stage=changes.pop("stage", "not_read_out"))
    for part, values in changes.items():
        result[part] |= values
    return sentence(verdict("smollm2-135m", result)).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    results = made_up.results(refusal=made_up.task_result())
    return page(folder, results, made_up.scores("refusal"), pictures=True)


def test_the_page_needs_nothing_but_itself(whole: str) -> None:
    elements = Elements(whole)
    assert {"link", "iframe", "object", "base", "form"}.isdisjoint(tag for tag, _ in elements.tags)
    for _, attributes in elements.tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "srcset", "action"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/svg+xml;base64,"))
    assert "url(" not in whole
    assert "@import" not in whole


def test_one_script_runs_and_it_holds_nothing_of_the_run(whole: str, tmp_path: Path) -> None:
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", whole, re.DOTALL)
    other = page(tmp_path, made_up.results(), made_up.scores())
    assert scripts == re.findall(r"<script>(.*?)</script>", other, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    metas = [a for tag, a in Elements(whole).tags if a.get("http-equiv")]
    assert [a["http-equiv"] for a in metas] == ["Content-Security-Policy"]
    policy = dict(part.strip().split(" ", 1) for part in (metas[0]["content"] or "").split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"'sha256-{digest}'"
    assert policy["img-src"] == "data:"


def test_the_page_of_320_items_stays_small(whole: str) -> None:
    assert whole.count("<tr data-stratum") > 100
    assert len(whole.encode()) < 1_500_000


def test_every_picture_has_an_alternative_text(whole: str) -> None:
    pictures = [attributes for tag, attributes in Elements(whole).tags if tag == "img"]
    assert len(pictures) == 4
    assert all(len(attributes["alt"] or "") > 40 for attributes in pictures)
    drawn = [a for tag, a in Elements(whole).tags if tag == "svg" and "aria-hidden" not in a]
    assert len(drawn) == 1
    assert all(len(attributes["aria-label"] or "") > 40 for attributes in drawn)


def test_links_lead_to_sections_of_the_page(tmp_path: Path) -> None:
    tags = Elements(page(tmp_path, made_up.results(), made_up.scores())).tags
    ids = {attributes["id"] for _, attributes in tags if "id" in attributes}
    targets = [a["href"] for tag, a in tags if tag == "a"]
    assert targets[:3] == ["#verdict", "#task-1", "#task-2"]
    assert set(targets) <= {f"#{name}" for name in ids}
    assert len(targets) == len(set(targets))


def test_the_page_shows_every_inequality_baseline_and_setting(whole: str) -> None:
    text = Elements(whole).text
    for row in made_up.evidence():
        assert row["name"] in text
    for shown in (
        "0.76 [0.71, 0.81]",
        "tfidf characters",
        "torch",
        "2.13.0",
        "120 items in 50 groups",
    ):
        assert shown in text


def test_the_page_shows_every_control_with_its_reason(whole: str) -> None:
    text = Elements(whole).text
    for shown in (
        "kinds of entity: control labels",
        "0.71 [0.62, 0.79]",
        "311 items, 25 types on both sides of a split",
        "selectivity: opening words",
        "only 2 surface types occur on both sides of a split; 4 are needed",
        "the same architecture with random weights",
        "+0.20 [0.15, 0.25]",
        "only pairs within 5 bins of the text score",
        "log-odds of this task's openings",
        "sure means outcome 1",
        "No other model was read",
        "the labels are made of the same samples",
    ):
        assert shown in text, shown
    assert "Beside another model" not in text


def test_the_page_shows_the_peer_where_there_is_one(tmp_path: Path) -> None:
    result = made_up.task_result() | {"peer": made_up.peer(0.86)}
    text = Elements(page(tmp_path, made_up.results(refusal=result), made_up.scores("refusal"))).text
    for shown in (
        "Beside another model: some-other-model",
        "the same on 66% of the items",
        "109 items in 84 groups",
        "0.36 [0.31, ",
        "neutral reader",
        "It is not shown to be above both.",
        "Only one other model was read (some-other-model)",
    ):
        assert shown in text, shown
    assert "No other model was read" not in text
    assert not unearned(text)
    small = made_up.task_result() | {"peer": made_up.peer(0.86, "no positive items among 9")}
    text = Elements(page(tmp_path, made_up.results(refusal=small), made_up.scores("refusal"))).text
    assert "nothing can be scored: no positive items among 9" in text
    assert "0.36 [" not in text
    silent = made_up.peer(0.86, "no items") | {"agreement": None, "unscored": 320}
    result = made_up.task_result() | {"peer": silent}
    text = Elements(page(tmp_path, made_up.results(refusal=result), made_up.scores("refusal"))).text
    assert "The other model's answers could not be scored." in text
    assert "the same on" not in text
    ahead = made_up.peer(0.86)
    ahead["disagreement"]["beats_peer_and_neutral"] = True
    result = made_up.task_result() | {"peer": ahead | {"unscored": 3}}
    text = Elements(page(tmp_path, made_up.results(refusal=result), made_up.scores("refusal"))).text
    assert "It is above both" in text
    assert "3 of the other's answers could not be scored" in text


def test_unearned_words_are_not_on_the_page(whole: str) -> None:
    assert not unearned(Elements(whole).text)


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    first = page(tmp_path, made_up.results(), made_up.scores())
    assert page(tmp_path, made_up.results(), made_up.scores()) == first


def test_texts_of_models_and_prompts_are_escaped(tmp_path: Path) -> None:
    result = made_up.task_result()
    result["behavior"] = result["breakdown"]["sentence"] = HOSTILE
    result["labels"] = {HOSTILE: 3}
    result["strata"][0]["stratum"] = result["second_split"]["name"] = HOSTILE
    result["judges"]["names"] = [HOSTILE]
    result["baselines"][HOSTILE] = made_up.predictor(0.5)
    result["peer"] = made_up.peer(0.86, HOSTILE) | {"model": HOSTILE}
    result["controls"]["selectivity"][HOSTILE] = result["controls"]["selectivity"]["entity"]
    scores = made_up.scores("refusal")
    scores[["text", "completion", "stratum"]] = HOSTILE + "y" * 400
    html = page(tmp_path, made_up.results(refusal=result) | {"model": HOSTILE}, scores)
    elements = Elements(html)
    tags = [tag for tag, _ in elements.tags]
    assert "img" not in tags
    assert tags.count("script") == 1
    assert "\x00" not in html
    assert "<script>alert(1)</script>" in elements.text
    assert "{{ 7*7 }}" in elements.text


def test_a_skipped_task_is_shown_with_its_reason(tmp_path: Path) -> None:
    skipped = {
        "task": "difficulty",
        "behavior": "answers correctly",
        "n_items": 300,
        "n_groups": 110,
        "base_rate": 0.01,
        "skipped": "only 4 items of outcome 1",
    }
    results = made_up.results(difficulty=skipped, refusal=made_up.task_result())
    text = Elements(page(tmp_path, results, made_up.scores("refusal"))).text
    assert "only 4 items of outcome 1" in text
    assert "300 items in 110 groups" in text
    alone = Elements(page(tmp_path, made_up.results(difficulty=skipped), pd.DataFrame())).text
    assert "only 4 items of outcome 1" in alone


def test_answers_that_all_failed_leave_dashes(tmp_path: Path) -> None:
    result = made_up.task_result()
    nothing = dict.fromkeys(("d_prime", "criterion", "criterion_ci", "hit_rate", "auroc", "ci"))
    result["verbal"] |= nothing | {"parse_rate": 0.0, "parse_rate_ci": [0.0, 0.01]}
    result["second_split"] = None
    scores = made_up.scores("refusal")
    scores[["verbal", "verbal_probability", "verbal_answer"]] = np.nan
    text = Elements(page(tmp_path, made_up.results(refusal=result), scores)).text
    assert "No item has both" in text
    assert "nan" not in text.lower().split()


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_a_sentence_and_a_drawing(stage: str, tmp_path: Path) -> None:
    result = made_up.task_result(stage=stage)
    text = Elements(page(tmp_path, made_up.results(refusal=result), made_up.scores("refusal"))).text
    whole = said(stage=stage)
    assert whole.startswith(
        "smollm2-135m: whether it declines the request is decodable at layer 17"
    )
    assert whole.endswith(").")
    assert STAGES[stage] in text
    drawing = draw_path(result)
    assert [station.name for station in drawing.stations] == [
        "prompt",
        "layer 17",
        "answer slot",
        "words",
    ]
    marked = [link.state for link in drawing.links if link.state != "kept"] or drawing.stations[
        3
    ].mark
    assert marked


def test_an_unknown_stage_is_named() -> None:
    with pytest.raises(ValueError, match=r"breakdown\.stage is 'lost'"):
        draw_path(made_up.task_result(stage="lost"))


def test_the_mark_lies_where_the_information_is_lost() -> None:
    def states(stage: str) -> list[str]:
        return [link.state for link in draw_path(made_up.task_result(stage=stage)).links]

    assert states("not_beyond_text") == ["lost", "after", "after"]
    assert states("not_transported") == ["kept", "lost", "after"]
    assert states("not_read_out") == ["kept", "kept", "lost"]
    assert states("faithful") == ["kept", "kept", "kept"]


@pytest.mark.parametrize(
    ("row", "states"),
    [
        (0, ["unknown", "after", "after"]),
        (1, ["kept", "unknown", "after"]),
        (4, ["kept", "kept", "unknown"]),
        (5, ["kept", "kept", "kept"]),
    ],
)
def test_an_open_inequality_is_marked_where_it_stands(row: int, states: list[str]) -> None:
    result = made_up.task_result(stage="undetermined")
    open_row = result["breakdown"]["evidence"][row]
    open_row["verdict"] = "undecided"
    result["breakdown"]["sentence"] = f"The intervals cannot decide: {open_row['name']}?"
    drawing = draw_path(result)
    assert [link.state for link in drawing.links] == states
    assert (drawing.stations[3].mark == "?") == (row == 5)


def test_decodable_must_beat_the_permutations() -> None:
    assert "is decodable" in said(probe={"p_max": 0.049})
    for p_max in (0.05, 0.31, None):
        whole = said(probe={"p_max": p_max})
        assert "could not be decoded" in whole
        assert "decodable" not in whole
        assert "beyond the text" not in whole


def test_beyond_the_text_must_exclude_zero() -> None:
    assert "beyond the text of the prompt (gain +0.10 [0.06, 0.14])" in said()
    assert "beyond" not in said(gap={"beyond_text": made_up.difference(0.03, 0.03)})
    assert "beyond" not in said(stage="not_beyond_text")


def test_words_under_chance_say_the_opposite() -> None:
    assert "its words say the opposite (AUROC 0.20 [0.15, 0.26])" in said(
        verbal={"auroc": 0.2, "ci": [0.15, 0.26]}
    )
    assert "its words do not carry it" in said()


def test_a_positive_criterion_leans_to_no() -> None:
    assert "lean to “yes” (criterion -1.10 [-1.30, -0.90])" in said(stage="miscalibrated")
    leaning = said(stage="miscalibrated", verbal={"criterion": 0.9, "criterion_ci": [0.7, 1.1]})
    assert "lean to “no” (criterion +0.90 [0.70, 1.10])" in leaning


def test_disagreements_count_both_sides_and_keep_the_widest() -> None:
    scores = pd.DataFrame(
        {
            "item": list("abcde"),
            "group": ["g", "g", "h", "h", "i"],
            "stratum": "s",
            "text": "prompt",
            "completion": "answer",
            "outcome": [1, 0, 0, 1, np.nan],
            "probe_probability": [0.9, 0.6, 0.2, 0.7, 0.9],
            "verbal_probability": [0.4, 0.45, 0.3, 0.1, 0.1],
            "verbal_answer": [0, 1, np.nan, np.nan, 1],
        }
    )
    found = disagreements(scores, limit=2)
    assert (found.n, found.n_groups, found.n_compared, found.n_groups_compared) == (3, 2, 4, 2)
    assert (found.probe_right, found.words_right) == (2, 1)
    assert [(row.item, row.answer, row.probe_was_right) for row in found.rows] == [
        ("d", "unreadable", True),
        ("a", "no", True),
    ]


def test_long_texts_are_cut_at_a_space_and_kept_whole() -> None:
    text = Text.of("word " * 100)
    assert text.rest
    assert text.preview.endswith("word")
    assert len(text.preview) <= 140
    assert text.whole == ("word " * 100).strip()
    assert len(Text.of("x" * 500).preview) == 140
    assert Text.of(float("nan")).whole == MISSING


def test_numbers_have_two_decimals_and_intervals_brackets() -> None:
    assert estimate(0.8649, [0.8151, 0.8999]) == "0.86 [0.82, 0.90]"
    assert estimate(0.1, [-0.001, 0.2], signed=True) == "+0.10 [0.00, 0.20]"
    assert (number(None), number(float("nan")), number(-0.001)) == (MISSING, MISSING, "0.00")
    assert (p_value(0.005, 199), p_value(0.01, 199), p_value(0.312)) == (
        "p ≤ 0.005",
        "p = 0.010",
        "p = 0.31",
    )


def test_characters_that_would_deceive_a_reader_are_replaced() -> None:
    assert readable("a\x00b\u202ec\ud800\nd\té") == "a\ufffdb\ufffdc\ufffd\nd\té"
    assert re.fullmatch(r"[\n\t -~]*", readable("plain\n\ttext"))


def test_what_a_run_lacks_is_named_with_the_command_that_adds_it(whole: str) -> None:
    text = Elements(whole).text
    for shown in (
        "They were not weighed here: selfprobe report RUN adds them",
        "It was not run here: selfprobe run --config RUN/config.yaml --out RUN adds it",
        "Nothing was intervened on: selfprobe causal RUN adds it",
    ):
        assert shown in text, shown


def test_what_a_run_holds_besides_its_results_is_shown(tmp_path: Path) -> None:
    results, scores = made_up.results(refusal=made_up.task_result()), made_up.scores("refusal")
    beside = Beside(
        location={"tasks": {"refusal": made_up.location()}},
        causal={"tasks": {"refusal": made_up.causal()}},
        claims={"refusal": made_up.claims()},
    )
    text = Elements(page(tmp_path, results, scores, beside=beside)).text
    for shown in (
        "The words rise after the probe (+9 layers [6, 12]).",
        "peer: no other model read the items; selfprobe run --peer MODEL adds it",
        "introspection✗ withheldits words do not beat the text",
        "privileged? not testedno other model was read",
        "At resid_post, layer 18, prompt_last, selected within folds.",
        "layer and position chosen by hand, which nothing corrects for.",
        "Not tested: nothing was compared, so nothing is said either way.",
        "The behavior moves and the self-report does not",
        "Shift test: does the report fit the changed behavior?",
    ):
        assert shown in text, shown
    assert "Nothing was intervened on" not in text
    assert "was not run here" not in text


def test_text_between_backticks_is_code_and_escaped() -> None:
    assert coded("run `a <b>` & `c`") == "run <code>a &lt;b&gt;</code> &amp; <code>c</code>"
    assert coded("one ` alone <i>") == "one ` alone &lt;i&gt;"
