"""Questions, changes of them, and how a choice is read off an answer."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.tasks.counterfactual.perturbing import Perturbation, perturbations
from experiments.tasks.counterfactual.pool import Question, questions
from experiments.tasks.counterfactual.reading import choice_is_settled, chosen_option

QUESTIONS = st.sampled_from(questions())
CHANGES = st.sampled_from(list(perturbations().values()))
HORSES = ("eagle", "horse")


@pytest.mark.parametrize(
    ("answer", "options", "marks", "chosen"),
    [
        ("eagle", HORSES, "", "eagle"),
        ("The answer is: horse.\n\nThe eagle is a bird of prey", HORSES, "", "horse"),
        ("An EAGLE can fly, but a horse cannot.", HORSES, "", "eagle"),
        ("It is not a horse but an eagle.", HORSES, "", "eagle"),
        ("I do not think that it is a horse.", HORSES, "", None),
        ("I don't think it's the horse, but the eagle", HORSES, "", "eagle"),
        ("It isn\u2019t the horse. It is an eagle", HORSES, "", "eagle"),
        ("Faster than a horse is the eagle", HORSES, "", "eagle"),
        ("- eagle\n- horse", HORSES, "", None),
        ("eagle, horse. The horse flies.", HORSES, "", "horse"),
        ("Eagles can fly.", HORSES, "", None),
        ("Both eagle and horse", HORSES, "", None),
        ("", HORSES, "", None),
        ("A vegetable is a fruit.", HORSES, "AB", None),
        ("B", HORSES, "AB", "horse"),
        ("(B) horse", HORSES, "AB", "horse"),
        ("The answer is B.", HORSES, "AB", "horse"),
        ("A. eagle\n\nThe answer is A. Eagle", HORSES, "AB", "eagle"),
        ("A. eagle\nB. horse\nThe answer is B.", HORSES, "AB", "horse"),
        ("2. horse", HORSES, "12", "horse"),
        ("B", HORSES, "", None),
        ("vitamin D, not vitamin C", ("vitamin C", "vitamin D"), "", "vitamin D"),
        ("Carbon dioxide is a gas.", ("neon", "carbon dioxide"), "", "carbon dioxide"),
        ("New York it is", ("York", "New York"), "", "New York"),
    ],
)
def test_the_choice_is_the_first_option_that_is_named_alone(
    answer: str, options: tuple[str, ...], marks: str, chosen: str | None
) -> None:
    index, reason = chosen_option(answer, options, tuple(marks))
    assert (None if index is None else options[index]) == chosen
    assert bool(reason) == (chosen is None)


WORDS = "eagle horse not a the and , . : B. A than flies because it is e hor"
PIECES = st.sampled_from([*WORDS.split(), "\n", " "])
TEXTS = st.lists(PIECES, max_size=25).map(" ".join) | st.lists(PIECES, max_size=25).map("".join)


@given(TEXTS, TEXTS, st.sampled_from([(), ("A", "B")]))
def test_a_settled_choice_stays(text: str, more: str, marks: tuple[str, ...]) -> None:
    if choice_is_settled(text, HORSES, marks):
        assert chosen_option(text, HORSES, marks)[0] is not None
        assert chosen_option(text + more, HORSES, marks) == chosen_option(text, HORSES, marks)


def test_a_choice_is_settled_when_no_list_can_come() -> None:
    assert not choice_is_settled("eagle", HORSES)
    assert not choice_is_settled("eagle and a horse", HORSES)
    assert choice_is_settled("The eagle flies high above us", HORSES)


def test_questions_are_many_and_balanced() -> None:
    pool = questions()
    assert len(pool) >= 240
    assert len({q.group for q in pool}) >= 100
    assert len({q.id for q in pool}) == len({q.text.lower() for q in pool}) == len(pool)
    assert {len(q.options) for q in pool} == {2, 4}
    for some in (pool, pool[:60]):
        for n in (2, 4):
            places = Counter(q.options.index(q.answer) for q in some if len(q.options) == n)
            assert max(places.values()) - min(places[i] for i in range(n)) <= 2
        strata = Counter(q.stratum for q in some)
        assert len(strata) == len({q.stratum for q in pool})
        assert max(strata.values()) - min(strata.values()) <= 1


@given(QUESTIONS)
def test_a_question_names_its_options_and_no_answer(question: Question) -> None:
    assert question.answer in question.options
    lowered = [option.lower() for option in question.options]
    assert len(set(lowered)) == len(lowered)
    for option in lowered:
        assert not re.search(rf"\b{re.escape(option)}\b", question.stem.lower())
        assert [option in other.split() for other in lowered].count(True) <= 1
    for option in question.options:
        assert question.asked().choice(f"I say {option}.") == (option, "")


def test_questions_of_one_right_option_share_a_group() -> None:
    groups: dict[str, set[str]] = {}
    for question in questions():
        groups.setdefault(question.answer.lower(), set()).add(question.group)
    assert all(len(each) == 1 for each in groups.values())


def test_changes_are_many_and_of_many_kinds() -> None:
    pool = perturbations()
    assert len(pool) >= 15
    needed = {
        *("hint", "authority", "urgency", "persona", "format", "order", "paraphrase", "distractor"),
        *("language", "typo", "negation", "emphasis", "example", "system prompt", "politeness"),
    }
    assert needed <= {change.kind for change in pool.values()}


@given(QUESTIONS, CHANGES)
def test_a_change_changes_the_prompt_and_leaves_its_options(
    question: Question, change: Perturbation
) -> None:
    asked = change.apply(question)
    assert asked.messages != question.asked().messages
    assert asked == change.apply(question)
    assert sorted(asked.options) == sorted(question.options)
    assert asked.messages[-1]["role"] == "user"
    assert "{" not in str([message["content"] for message in asked.messages])
    for i, option in enumerate(asked.options):
        assert option.lower() in asked.text.lower()
        assert asked.choice(f"The answer is {option}.") == (option, "")
        if asked.marks:
            assert f"{asked.marks[i]}. {option}" in asked.text
            assert asked.choice(f"{asked.marks[i]}.") == (option, "")


@given(QUESTIONS, CHANGES)
def test_no_change_tells_which_option_is_right(question: Question, change: Perturbation) -> None:
    for other in question.options:
        told = replace(question, answer=other)
        assert change.apply(told) == change.apply(question)
        assert told.asked() == question.asked()
