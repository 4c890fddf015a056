"""The tasks of the counterfactual family that ask what a model knows of its own answers."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from experiments.tasks import Item, Task
from experiments.tasks.counterfactual import (
    ComponentAttributionTask,
    ConfidenceRecallTask,
    FeatureRateTask,
    LogitEstimationTask,
    SelfAccuracyTask,
)
from experiments.tasks.counterfactual.component_attribution import compared, largest
from experiments.tasks.counterfactual.feature_rate import FEATURES, WORDS
from experiments.tasks.counterfactual.framing import COMPONENTS, framed
from experiments.tasks.counterfactual.log_odds import option_logprobs_of
from experiments.tasks.counterfactual.pool import Question, questions
from experiments.tasks.item import user
from hooks import Completion
from tests.experiments.scripted import ScriptedRunner

LEANING = (ConfidenceRecallTask, LogitEstimationTask, ComponentAttributionTask)


def own_item(task: Task, choices: list[str], answers: tuple[str, ...] = ()) -> Item:
    return Item(
        "u", task.name, "u", "all", user("Which?"), answers=answers, meta={"choices": choices}
    )


@pytest.mark.parametrize("task", [*LEANING, SelfAccuracyTask, FeatureRateTask])
def test_there_are_enough_items_and_groups(task: type[Task]) -> None:
    items = task().items()
    assert items == task().items()
    assert len(items) >= 150
    assert len({item.group for item in items}) >= 100
    assert len({item.id for item in items}) == len(items)


@pytest.mark.parametrize("task", LEANING)
def test_options_are_two_that_a_first_token_tells_apart(task: type[Task]) -> None:
    for item in task().items():
        first, second = item.meta["choices"]
        assert first[0].lower() != second[0].lower()
    (adopted,) = task().adopt([own_item(task(), ["red", "blue"])])
    assert "Options: red, blue." in adopted.text
    for choices in (["red", "Rose"], ["red", "blue", "green"]):
        with pytest.raises(ValueError, match=r"choices: those of item 'u' .* different letters"):
            task().adopt([own_item(task(), choices)])


@pytest.mark.parametrize("task", [*LEANING, SelfAccuracyTask])
def test_no_question_about_the_model_singles_out_the_right_option(task: type[Task]) -> None:
    """The right option stands in a prompt as often as the wrong ones, but where an item names one of them both ways."""
    right = {question.stem: question.answer for question in questions()}
    for item in task().items():
        for question in (*task.elicitations, *task.value_questions):
            asked = question.prompt(item).instruction
            assert "right answer is" not in asked
            if "{one}" not in question.template and task is not LogitEstimationTask:
                rest = asked.replace(item.quoted, "")
                assert f'"{right[item.meta["stem"]]}"' not in rest


def test_logprobs_are_read_in_the_order_of_the_options_and_of_the_questions() -> None:
    pool = [question for question in questions() if len(question.options) == 2][:6]
    asked = [framed(question).asked(without) for question in pool for without in (None, "hint")]
    runner = ScriptedRunner(lean=lambda text, option: -len(text) - len(option) / 100)
    for one, read in zip(asked, option_logprobs_of(asked, runner), strict=True):
        assert read.tolist() == pytest.approx([-len(one.text) - len(o) / 100 for o in one.options])


@given(st.floats(-8, -0.1), st.floats(-8, -0.1))
def test_confidence_is_the_share_of_the_option_that_is_leaned_to(a: float, b: float) -> None:
    assume(abs(a - b) > 1e-9)
    item = ConfidenceRecallTask().items()[0]
    first, second = item.meta["choices"]
    runner = ScriptedRunner(lean=lambda asked, option: {first: a, second: b}[option])
    (observed,) = ConfidenceRecallTask().observe([item], runner)
    share = 1 / (1 + math.exp(-abs(a - b)))
    assert observed.values["confidence"] == pytest.approx(100 * share)
    assert observed.judgments[0].outcome == int(observed.values["confidence"] > 90)


@given(st.floats(-8, -0.1), st.floats(-8, -0.1))
def test_log_odds_are_of_the_first_option_against_the_second(a: float, b: float) -> None:
    assume(abs(a - b) > 1e-9)
    item = LogitEstimationTask().items()[0]
    runner = ScriptedRunner(
        lean=lambda asked, option: {item.fields["first"]: a, item.fields["second"]: b}[option]
    )
    (observed,) = LogitEstimationTask().observe([item], runner)
    assert observed.values["log_odds"] == pytest.approx(a - b)
    assert observed.judgments[0].outcome == int(a > b)


def test_a_frame_without_a_component_lacks_its_line_alone() -> None:
    question = Question("q", "g", "all", "Which?", ("red", "blue"))
    whole = framed(question)
    lines = whole.asked().text.split("\n")
    assert set(whole.lines) == set(COMPONENTS)
    for name, line in whole.lines.items():
        assert whole.asked(name).text.split("\n") == [one for one in lines if one != line]
        assert lines.count(line) == 1


@pytest.mark.parametrize("swaying", COMPONENTS)
def test_the_component_that_sways_a_known_model_is_found(swaying: str) -> None:
    """It leans to the first option by 3 nats where the line of one component stands, and by little for others."""
    task = ComponentAttributionTask()
    items = task.items()
    lines = {
        item.id: framed(Question("", "", "", item.meta["stem"], tuple(item.meta["choices"]))).lines
        for item in items
    }
    for item in items[:40]:
        own = lines[item.id]
        weights = {
            own[name]: 3.0 if name == swaying else 0.1 * i for i, name in enumerate(COMPONENTS)
        }

        def lean(asked: str, option: str, item: Item = item, weights: dict = weights) -> float:
            leaned = sum(weight for line, weight in weights.items() if line in asked.split("\n"))
            return leaned if option == item.meta["choices"][0] else 0.0

        (observed,) = task.observe([item], ScriptedRunner(lean=lean))
        (letter,) = observed.values["component"]
        listed = dict(line.split(". ", 1) for line in item.fields["lettered"].split("\n"))
        assert listed[letter] == own[swaying]
        expected = weights[item.fields["one"]] > weights[item.fields["other"]]
        assert observed.judgments[0].outcome == int(expected)


@given(st.lists(st.floats(0.01, 10), min_size=4, max_size=4))
def test_near_effects_are_ties(effects: list[float]) -> None:
    named = dict(zip(COMPONENTS, effects, strict=True))
    true = largest(named)
    assert max(named, key=lambda name: named[name]) in true
    assert all((named[name] >= 0.9 * max(effects)) == (name in true) for name in named)
    first, second = effects[:2]
    judged = compared(first, second)
    assert judged.outcome == (
        None if min(first, second) >= 0.9 * max(first, second) else int(first > second)
    )
    assert compared(second, first).outcome == (
        None if judged.outcome is None else 1 - judged.outcome
    )


def test_pairs_of_components_are_drawn_in_both_orders() -> None:
    count = Counter()
    for item in ComponentAttributionTask().items():
        lines = framed(Question("", "", "", item.meta["stem"], tuple(item.meta["choices"]))).lines
        names = {line: name for name, line in lines.items()}
        count[names[item.fields["one"]], names[item.fields["other"]]] += 1
        assert item.fields["one"] in item.text
    assert len(count) == 12


def test_accuracy_is_the_rate_of_the_right_option_among_readable_answers() -> None:
    task = SelfAccuracyTask()
    items = task.items()
    of_text = {item.text: item for item in items}

    def say(asked: str, sample: int) -> str:
        item = of_text[asked]
        wrong = next(choice for choice in item.meta["choices"] if choice != item.answers[0])
        return (item.answers[0], wrong, "I do not know")[sample % 3]

    for observed in task.observe(items, ScriptedRunner(say, samples=5)):
        assert [judged.outcome for judged in observed.judgments] == [1, 0, None, 1, 0]
    with pytest.raises(ValueError, match="answers: 'green' of item 'u' is none of its choices"):
        task.adopt([own_item(task, ["red", "blue"], ("green",))])
    assert len(task.adopt([own_item(task, ["red", "blue"], ("blue",))])) == 1


@pytest.mark.parametrize("task", [LogitEstimationTask, ConfidenceRecallTask])
def test_two_options_of_which_nothing_is_known_are_unscored(task: type[Task]) -> None:
    items = task().items()[:3]
    run = ScriptedRunner(lean=lambda asked, option: -13.8)
    for observed in task().observe(items, run):
        (judged,) = observed.judgments
        assert (judged.outcome, judged.reason) == (None, "neither option is likelier")
        assert observed.values == {}


def test_components_of_which_none_sways_have_no_largest() -> None:
    (item, *_) = ComponentAttributionTask().items()
    (observed,) = ComponentAttributionTask().observe([item], ScriptedRunner())
    assert observed.judgments[0].outcome is None
    assert observed.values == {}


def test_a_feature_that_may_still_come_is_unscored() -> None:
    """The budget ended in the fourth word, which may go on: "a" may become "another"."""
    task = FeatureRateTask()
    items = task.items()

    class Cut(ScriptedRunner):
        def complete(self, prompts, **settings):
            return [(Completion(prompt.id, 0, "Salt is in a", 4, False),) for prompt in prompts]

    for item, observed in zip(items, task.observe(items, Cut()), strict=True):
        (judged,) = observed.judgments
        assert judged.outcome == (1 if item.fields["feature"].endswith('"is"') else None)
        assert bool(judged.reason) == (judged.outcome is None)


def test_features_are_of_the_first_words_of_each_answer() -> None:
    task = FeatureRateTask()
    items = task.items()
    runner = ScriptedRunner(
        lambda asked, sample: "The sea is a thing." if sample else "Well, go to sea!", samples=5
    )
    expected = {
        "contain a comma": 0.2,
        'contain the word "is"': 0.8,
        'contain the word "the"': 0.8,
        'begin with the word "the"': 0.8,
        'contain the word "a" or "an"': 0.8,
        'contain the word "to"': 0.2,
    }
    assert set(expected) == set(FEATURES)
    for item, observed in zip(items, task.observe(items, runner), strict=True):
        outcomes = [judged.outcome for judged in observed.judgments]
        assert sum(outcomes) / 5 == expected[item.fields["feature"]]
    late = ScriptedRunner(lambda asked, sample: "word " * WORDS + "the a to is,")
    assert {one.judgments[0].outcome for one in task.observe(items, late)} == {0}
    assert not any(item.quoted != item.text.split("\n\n", 1)[1] for item in items)
    with pytest.raises(ValueError, match="messages: item 'c' of task 'feature_rate' has 2"):
        task.adopt([Item("c", task.name, "c", "all", user("a") * 2)])
