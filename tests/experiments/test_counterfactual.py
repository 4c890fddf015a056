"""Counterfactual tasks on a scripted model: labels are verified, balanced and what is observed again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.behavior import label_behavior
from experiments.items import item_from_row, load_items
from experiments.tasks import Item, Task
from experiments.tasks.counterfactual import (
    COUNTERFACTUAL_TASKS,
    EditProposalTask,
    FlipDecisionShownTask,
    FlipDecisionTask,
    FlipRateTask,
    OutputPredictionTask,
    PerturbationChoiceTask,
)
from experiments.tasks.counterfactual.answering import Answers, flips_of_pairs
from experiments.tasks.counterfactual.editing import edited_stem
from experiments.tasks.counterfactual.flips import ChangeTask
from experiments.tasks.counterfactual.perturbing import perturbations
from experiments.tasks.counterfactual.pool import Question, questions
from experiments.tasks.counterfactual.trials import Change, Trial
from experiments.tasks.forms import Choice
from experiments.word_scores import score_answers
from hooks import Completion
from tests.experiments.scripted import ScriptedRunner

TASKS = [task for task in COUNTERFACTUAL_TASKS if issubclass(task, ChangeTask)]
CHANGED = [FlipDecisionTask, FlipDecisionShownTask, OutputPredictionTask, FlipRateTask]
N = 24


@cache
def options_in(asked: str) -> tuple[str, ...]:
    """The options of the question that a message asks."""
    lowered = asked.lower()
    found = [q.options for q in questions() if all(o.lower() in lowered for o in q.options)]
    return max(found, key=lambda options: sum(map(len, options)))


def whimsical(asked: str, sample: int) -> str:
    """A model that chooses by a hash of what it reads, is sometimes unreadable and rewrites every question."""
    if "Change the question a little" in asked:
        return f"Tell me now, {crc32(asked.encode()) % 7}: which one?"
    options = options_in(asked)
    drawn = crc32(f"{asked}/{sample // 3}".encode())
    return "I cannot tell." if drawn % 7 == 0 else f"It is {options[drawn // 7 % len(options)]}."


def stubborn(asked: str, sample: int) -> str:
    return f"It is {min(options_in(asked))}."


def run_of(task: type[Task], say: Callable[[str, int], str] = whimsical) -> ScriptedRunner:
    return ScriptedRunner(say, samples=task.min_samples)


@cache
def made(task: type[ChangeTask], n: int | None = N) -> list[Item]:
    return newly_made(task, n)


def newly_made(task: type[ChangeTask], n: int | None) -> list[Item]:
    return task().make_items(task().items(), n, run_of(task))


@pytest.mark.parametrize("task", TASKS)
def test_items_are_verified_and_differ(task: type[ChangeTask]) -> None:
    items = made(task)
    assert len(items) == N
    assert len({item.id for item in items}) == len({item.text for item in items}) == N
    assert items == newly_made(task, N)
    behavior = label_behavior(run_of(task), task(), items)
    assert all(row.outcome is not None for row in behavior)
    if task not in (EditProposalTask, FlipRateTask):
        assert Counter(row.outcome for row in behavior) == {0: N // 2, 1: N // 2}
    for item in items:
        assert item.text == item.fields["changed"] != item.fields["prompt"]
        assert {"entity", "type"} <= set(item.meta)


@pytest.mark.parametrize("task", TASKS)
def test_items_survive_being_written(task: type[ChangeTask]) -> None:
    items = made(task, 6)
    read = [item_from_row(json.loads(json.dumps(item.to_json()))) for item in items]
    assert task().observe(read, run_of(task)) == task().observe(items, run_of(task))


@pytest.mark.parametrize("task", TASKS)
def test_no_reference_answer_is_known_to_an_item(task: type[ChangeTask]) -> None:
    """Drafts and items hold no answer, so that no prompt made of them can: the pool's right option is unreachable."""
    assert not any(item.answers for item in [*task().items(), *made(task, 6)])


@pytest.mark.parametrize("task", [task for task in CHANGED if task.balanced])
def test_labels_are_balanced_within_each_change(task: type[ChangeTask]) -> None:
    items = made(task, 60)
    outcomes = [row.outcome for row in label_behavior(run_of(task), task(), items)]
    count = Counter((item.meta["entity"], o) for item, o in zip(items, outcomes, strict=True))
    for name in {item.meta["entity"] for item in items}:
        assert abs(count[name, 0] - count[name, 1]) <= 1
    assert abs(sum(o == 1 for o in outcomes[:20]) - 10) <= 1


def test_a_change_that_cannot_be_read_is_revised() -> None:
    def unreadable_when_hurried(asked: str, sample: int) -> str:
        return "?" if "\n" not in asked or "Hint" in asked else whimsical(asked, sample)

    run = ScriptedRunner(unreadable_when_hurried)
    items = FlipDecisionTask().make_items(FlipDecisionTask().items(), N, run)
    assert len(items) == N
    assert all("\n" in item.text and "Hint" not in item.text for item in items)


def test_a_rule_that_changes_nothing_is_revised() -> None:
    """Of these words only equal letters can be exchanged."""
    question = Question("q", "g", "all", "Seee aaaa", ("red", "blue"))
    typos, hint = (perturbations()[name] for name in ("typos", "hint for the first"))
    answers = Answers((), ("red",), ("",))
    labels = [
        FlipDecisionTask().label(
            Trial(question, answers, (Change(one.name, one.kind, one.apply(question)),), (answers,))
        )
        for one in (typos, hint)
    ]
    assert labels == [None, 0]


def test_the_search_stops_when_enough_is_found() -> None:
    run = ScriptedRunner(whimsical)
    FlipDecisionTask().make_items(FlipDecisionTask().items(), N, run)
    assert len(run.asked) < 10 * N


def test_a_model_that_never_flips_gives_what_there_is() -> None:
    run = ScriptedRunner(stubborn)
    items = FlipDecisionTask().make_items(FlipDecisionTask().items(), 30, run)
    assert len(items) == 15
    assert {row.outcome for row in label_behavior(run, FlipDecisionTask(), items)} == {0}


@pytest.mark.parametrize("task", TASKS)
def test_a_model_that_cannot_be_read_gives_no_item(task: type[ChangeTask]) -> None:
    run = run_of(task, lambda asked, sample: "?")
    with pytest.raises(RuntimeError, match="could not be read"):
        task().make_items(task().items(), N, run)


def test_without_a_number_every_question_is_tried() -> None:
    items = made(FlipDecisionTask, None)
    assert 200 < len(items) <= len(questions())


def test_twins_are_asked_once() -> None:
    draft = FlipDecisionTask().items()[0]
    twin = Item(**{**vars(draft), "id": "twin"})
    items = FlipDecisionTask().make_items([draft, twin], None, ScriptedRunner(whimsical))
    assert len(items) == 1


def test_only_the_shown_form_shows_the_own_answer() -> None:
    for item in made(FlipDecisionShownTask):
        base = ScriptedRunner(whimsical).say(item.fields["prompt"], 0)
        assert base == f"It is {item.fields['own_answer']}."
        for elicitation in FlipDecisionShownTask.elicitations:
            content = elicitation.prompt(item).instruction
            assert f'answer to the first message: "{item.fields["own_answer"]}"' in content
    assert all("own_answer" not in item.fields for item in made(FlipDecisionTask))


def test_the_value_of_an_output_is_its_letter() -> None:
    items = made(OutputPredictionTask)
    observed = OutputPredictionTask().observe(items, ScriptedRunner(whimsical))
    for item, one in zip(items, observed, strict=True):
        letter = one.values["option"]
        option = item.meta["changed_choices"]["ABCD".index(letter)]
        assert f"{letter}. {option}" in item.fields["lettered"]
        assert whimsical(item.messages[-1]["content"], 0) == f"It is {option}."
        assert one.judgments[0].outcome == int(letter == "A")


@given(st.data(), st.integers(1, 5))
def test_the_rate_is_over_all_pairs(data: st.DataObject, k: int) -> None:
    drawn = [
        data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=k, max_size=k))
        for _ in range(2)
    ]
    before, after = (
        Answers(
            tuple(Completion("x", i, "", 0, True) for i in range(k)),
            tuple(options),
            tuple("" if option else "unreadable" for option in options),
        )
        for options in drawn
    )
    judgments = flips_of_pairs(before, after)
    assert len(judgments) == k * k
    grid = np.array([[None if None in (x, y) else x != y for y in drawn[1]] for x in drawn[0]])
    assert [j.outcome for j in judgments] == list(grid.ravel())
    assert all(bool(j.reason) == (j.outcome is None) for j in judgments)


def test_one_or_two_of_three_changes_flip() -> None:
    task = PerturbationChoiceTask()
    items = made(PerturbationChoiceTask)
    observed = task.observe(items, ScriptedRunner(whimsical))
    for i, (item, one) in enumerate(zip(items, observed, strict=True)):
        asked = [change["messages"][-1]["content"] for change in item.meta["changes"]]
        base = whimsical(item.fields["prompt"], 0)
        flipping = [str(j + 1) for j, text in enumerate(asked) if whimsical(text, 0) != base]
        assert one.values["change"] == flipping
        assert 1 <= len(flipping) <= 2
        assert ("1" in flipping) == (i % 2 == 0) == bool(one.judgments[0].outcome)
        assert len({change["name"] for change in item.meta["changes"]}) == 3
        for place, text in enumerate(asked, start=1):
            assert f"{place}. " in item.fields["changes"]
            assert text in item.fields["changes"]


@pytest.mark.parametrize("task", [OutputPredictionTask, PerturbationChoiceTask])
def test_a_constant_has_no_skill_and_an_oracle_the_most(task: type[ChangeTask]) -> None:
    items = made(task)
    question = task.value_questions[0]
    observed = task().observe(items, run_of(task))
    trues = [one.values[question.name] for one in observed]
    groups, reasons = [item.group for item in items], [""] * len(items)
    assert isinstance(question.form, Choice)
    constants = [
        score_answers(question.form, [option] * len(items), trues, groups, reasons)
        for option in question.form.options
    ]
    assert max(score.skill.estimate for score in constants) == 0
    oracle = [true if isinstance(true, str) else true[0] for true in trues]
    best = score_answers(question.form, oracle, trues, groups, reasons)
    assert best.strict.estimate == best.lenient == 1
    assert best.skill.estimate == pytest.approx(1 - best.constant_score)


@pytest.mark.parametrize("answer", ["3", "3.", "Message 3: it differs.", '"3"', "**3**"])
def test_a_place_is_read_with_what_stands_around_it(answer: str) -> None:
    assert PerturbationChoiceTask.value_questions[0].parse(answer) == ("3", "")
    assert PerturbationChoiceTask.value_questions[0].parse("1, or 2.")[0] is None


def test_an_own_change_is_compared_with_one_of_the_pool() -> None:
    items = made(EditProposalTask)
    observed = EditProposalTask().observe(items, ScriptedRunner(whimsical))
    for item, one in zip(items, observed, strict=True):
        assert item.fields["changed"].startswith("Tell me now, ")
        base, own = (whimsical(item.fields[name], 0) for name in ("prompt", "changed"))
        assert one.judgments[0].outcome == int(base != own)
    assert {one.values["pool_change_flips"] for one in observed} == {0, 1, None}


@pytest.mark.parametrize(
    ("written", "stem"),
    [
        ('"Which animal swims?"\nIt is a fish.', "Which animal swims?"),
        ("\n  Which animal swims?", "Which animal swims?"),
        ("which animal can FLY", None),
        ("", None),
        ("<|im_end|> Which animal swims?", None),
        ("Which animal swims?</s>", None),
        ("Which animal swims? <start_of_turn>", None),
        ("[INST] Which animal swims?", None),
        ("Which has < 3 legs [or > 5]?", "Which has < 3 legs [or > 5]?"),
    ],
)
def test_what_the_model_writes_is_one_line_that_changes_the_question(
    written: str, stem: str | None
) -> None:
    assert edited_stem(written, "Which animal can fly?") == stem


def test_own_questions_need_choices(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    row = {"text": "Which one is a tool?", "choices": ["saw", "cow"], "answers": ["saw"]}
    path.write_text(json.dumps(row) + "\n")
    [draft] = FlipDecisionTask().adopt(load_items(path, "flip_decision"))
    assert draft.text == "Which one is a tool?\nOptions: saw, cow.\nAnswer with just the option."
    path.write_text(json.dumps({"text": "Which one is a tool?"}) + "\n")
    with pytest.raises(ValueError, match="two to four different 'choices'"):
        FlipDecisionTask().adopt(load_items(path, "flip_decision"))
