from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.tasks import Item
from experiments.tasks.difficulty import DifficultyTask
from experiments.tasks.item import user
from experiments.tasks.ranking import RankingTask, half_of, measured_order
from tests.experiments.scripted import ScriptedRunner

TASK = RankingTask()
PLACES = st.lists(st.tuples(st.booleans(), st.integers(1, 4)), min_size=4, max_size=4)


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return TASK.items()


def questions_of(item: Item) -> list[str]:
    return [question["text"] for question in item.meta["questions"]]


def test_items_are_two_questions_of_each_set_of_four(items: list[Item]) -> None:
    assert len(items) == 112
    assert set(Counter(item.group for item in items).values()) == {2}
    assert items == RankingTask().items()
    for first, second in itertools.pairwise(items[:2]):
        assert first.text != second.text
    for item in items:
        assert questions_of(item)[int(item.fields["focal"]) - 1] == item.text
        lines = item.quoted.split("\n")
        assert lines == [f"{i}. {text}" for i, text in enumerate(questions_of(item), start=1)]


def test_no_question_stands_in_two_sets_and_no_set_has_two_forms_of_a_fact(
    items: list[Item],
) -> None:
    group_of = {item.text: item.group for item in DifficultyTask().items()}
    sets = {item.group: questions_of(item) for item in items}
    facts = [group_of[text] for texts in sets.values() for text in texts]
    assert len(set(facts)) == len(facts) == 4 * len(sets)


def test_no_answer_stands_in_a_question_about_the_order(items: list[Item]) -> None:
    for item in items:
        texts = questions_of(item)
        for i, question in enumerate(item.meta["questions"]):
            others = " ".join(text for j, text in enumerate(texts) if j != i).lower()
            named = [a for a in question["answers"] if f" {a.lower()} " in f" {others} "]
            # Numbers and common words may stand in another question by chance; a name may not.
            assert not any(answer[0].isupper() for answer in named)
        for question in (*TASK.elicitations, *TASK.value_questions):
            assert item.answers[0] not in question.prompt(item).instruction
            assert item.answers[0] in question.prompt(item, answer_revealed=True).instruction


def test_no_question_hangs_on_the_answers_of_the_set() -> None:
    """Sets of the same questions with other answers are asked about in the same words."""
    drafts = DifficultyTask().items()[:40]
    others = [replace(draft, answers=("something else",)) for draft in drafts]
    for item, other in zip(TASK.adopt(drafts), TASK.adopt(others), strict=True):
        for question in (*TASK.elicitations, *TASK.value_questions, TASK.event.percent()):
            assert question.prompt(item) == question.prompt(other)
            revealed = (question.prompt(one, answer_revealed=True) for one in (item, other))
            assert next(revealed) != next(revealed)


@given(PLACES)
def test_the_order_holds_levels(places: list[tuple[bool, int]]) -> None:
    levels = measured_order(places)
    assert sorted(one for level in levels for one in level) == [1, 2, 3, 4]
    found = [{places[one - 1] for one in level} for level in levels]
    assert all(len(alike) == 1 for alike in found)
    for (before,), (after,) in itertools.pairwise(found):
        assert before < after


@given(PLACES.filter(lambda places: len(set(places)) == 4))
def test_without_levels_two_of_four_are_in_the_second_half(places: list[tuple[bool, int]]) -> None:
    order = measured_order(places)
    for focal in range(4):
        assert half_of(places, focal).outcome == int(order.index([focal + 1]) >= 2)


@given(PLACES)
def test_an_item_is_unscored_only_where_as_many_stand_before_as_after(
    places: list[tuple[bool, int]],
) -> None:
    for focal, place in enumerate(places):
        before, after = sum(p < place for p in places), sum(p > place for p in places)
        judged = half_of(places, focal)
        assert judged.outcome == (None if before == after else int(before > after))
        assert bool(judged.reason) == (judged.outcome is None)


def test_what_is_observed_of_a_known_model(items: list[Item]) -> None:
    """A model that is right with one word more for every question of a set, and wrong on the first."""

    def say(asked: str, sample: int) -> str:
        for item in items:
            texts = questions_of(item)
            if asked in texts:
                place = texts.index(asked)
                answer = item.meta["questions"][place]["answers"][0]
                return (
                    "gibberish" if place == 0 else " ".join([f"It is {answer}.", *["Yes."] * place])
                )
        raise AssertionError(asked)

    runner = ScriptedRunner(say, samples=3)
    observed = TASK.observe(items, runner)
    in_order = [one.values["order"] for one in observed].count([[2], [3], [4], [1]])
    assert in_order >= 0.8 * len(
        items
    )  # not where an answer is longer than what tells the others apart
    for item, one in zip(items, observed, strict=True):
        assert len(one.judgments) == len(one.completions) == 3
        levels, focal = one.values["order"], int(item.fields["focal"])
        at = next(i for i, level in enumerate(levels) if focal in level)
        before, after = (sum(map(len, part)) for part in (levels[:at], levels[at + 1 :]))
        assert all(
            judged.outcome == (None if before == after else int(before > after))
            for judged in one.judgments
        )


def test_a_users_questions_are_cut_into_sets_and_sets_that_share_a_group_are_one() -> None:
    def item(i: int, group: str) -> Item:
        message = {"role": "user", "content": f"Question {i}?"}
        return Item(f"u{i}", "ranking", group, "all", (message,), answers=(str(i),))

    of_four = [item(i, f"g{i // 4}") for i in range(8)]
    adopted = TASK.adopt(of_four[::2] + of_four[1::2])
    assert [item.group for item in adopted] == ["ranking-0001"] * 2 + ["ranking-0002"] * 2
    assert {text for one in adopted[:2] for text in questions_of(one)} == {
        f"Question {i}?" for i in range(4)
    }
    straddling = [item(i, "g") if i in (3, 4) else item(i, f"own-{i}") for i in range(9)]
    assert len({one.group for one in TASK.adopt(straddling)}) == 1
    with pytest.raises(
        ValueError, match="items: 3 questions for task 'ranking', which orders four"
    ):
        TASK.adopt(of_four[:3])
    chat = Item("c", "ranking", "c", "all", of_four[0].messages * 2, answers=("x",))
    with pytest.raises(ValueError, match="messages: item 'c' of task 'ranking' has 2"):
        TASK.adopt([*of_four, chat])


def test_a_users_choices_are_shown_and_read_as_choices() -> None:
    def item(i: int) -> Item:
        return Item(
            f"u{i}",
            "ranking",
            "g",
            "all",
            user(f"How much is {i}?"),
            answers=("$x^2$",),
            meta={"choices": ["%", "$x^2$"]},
        )

    items = TASK.adopt([item(i) for i in range(4)])
    assert all(
        item.text.endswith("Options: %, $x^2$.\nAnswer with just the option.") for item in items
    )
    right = {text for text in questions_of(items[0]) if "1" in text or "3" in text}
    runner = ScriptedRunner(lambda asked, sample: "It is $x^2$" if asked in right else "%")
    for item, observed in zip(items, TASK.observe(items, runner), strict=True):
        assert observed.judgments[0].outcome == int(item.text not in right)
