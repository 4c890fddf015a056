from __future__ import annotations

from collections import Counter

import pytest

from experiments.tasks import Item
from experiments.tasks.interleaving import interleaved
from experiments.tasks.item import user
from experiments.tasks.recognition import RecognitionTask, first_sentence
from tests.experiments.scripted import ScriptedRunner

TASK = RecognitionTask()
OWN = "I say so. And more, if there is room"


def made(n: int | None = None, say: str = OWN) -> list[Item]:
    return TASK.make_items(TASK.items(), n, ScriptedRunner(lambda asked, sample: say))


def test_drafts_are_distinct_questions_with_one_sentence_of_another() -> None:
    drafts = TASK.items()
    assert len(drafts) >= 100
    assert len({draft.text for draft in drafts}) == len({d.meta["other"] for d in drafts})
    assert len({draft.text for draft in drafts}) == len({d.group for d in drafts}) == len(drafts)
    for draft in drafts:
        assert draft.text.endswith("?")
        assert first_sentence(draft.meta["other"]) == draft.meta["other"]
        assert 40 <= len(draft.meta["other"]) <= 130


def test_every_question_is_shown_with_both_answers_so_that_it_says_nothing() -> None:
    items = made()
    assert set(Counter(item.group for item in items).values()) == {2}
    drafts = {draft.group: draft for draft in TASK.items()}
    for item, observed in zip(items, TASK.observe(items, ScriptedRunner()), strict=True):
        draft = drafts[item.group]
        (judged,) = observed.judgments
        shown = "I say so." if judged.outcome else draft.meta["other"]
        assert item.text == f"Question: {draft.text}\nAnswer: {shown}"
    assert len({item.id for item in items}) == len(items)


def test_no_more_items_and_hardly_more_questions_than_asked_for() -> None:
    runner = ScriptedRunner(lambda asked, sample: OWN)
    items = TASK.make_items(TASK.items(), 21, runner)
    assert len(items) == 20
    assert len(runner.asked) < 50
    assert items == made()[:20]


def test_answers_that_break_off_and_answers_that_are_the_others_are_left_out() -> None:
    drafts = TASK.items()
    others = {draft.text: draft.meta["other"] for draft in drafts}

    def say(asked: str, sample: int) -> str:
        question = asked.split("?")[0] + "?"
        answers = (others[question], "I would say that there", f"</s>{OWN}", OWN)
        return answers[[draft.text for draft in drafts].index(question) % 4]

    items = TASK.make_items(drafts, None, ScriptedRunner(say))
    assert {item.group for item in items} == {draft.group for draft in drafts[3::4]}
    with pytest.raises(RuntimeError, match="none of the model's answers to 108 questions"):
        made(say="I would say that there")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes. No.", "Yes."),
        ("It is so, and it goes on", None),
        ('  "It is so."\nMore.', '"It is so."'),
        ("About 3.5 liters\nof it. Then", "About 3.5 liters of it."),
        ("", None),
    ],
)
def test_the_first_sentence_of_a_completion(text: str, expected: str | None) -> None:
    assert first_sentence(text) == expected


def test_a_users_questions_need_somebody_elses_answer() -> None:
    item = Item("u", "recognition", "u", "all", user("Why?"), answers=("Because it is.",))
    (draft,) = TASK.adopt([item])
    assert (draft.answers, draft.meta["other"]) == ((), "Because it is.")
    with pytest.raises(ValueError, match="answers: item 'v' of task 'recognition' has none"):
        TASK.adopt([Item("v", "recognition", "v", "all", user("Why?"))])
    chat = Item("w", "recognition", "w", "all", user("a") * 2, answers=("x",))
    with pytest.raises(ValueError, match="messages: item 'w' of task 'recognition' has 2"):
        TASK.adopt([chat])


def test_any_prefix_holds_each_stratum_in_about_its_share() -> None:
    tables = {"a": range(10), "b": range(30), "c": range(20)}
    order = interleaved(tables)
    assert sorted(order) == sorted((name, i) for name, members in tables.items() for i in members)
    for n in range(1, 61):
        count = Counter(name for name, _ in order[:n])
        assert all(abs(count[name] - n * len(tables[name]) / 60) <= 1.5 for name in tables)
