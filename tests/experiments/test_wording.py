"""Questions in every wording, order and framing, and what they may show."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.tasks import TASKS, Event, Item, Number, ValueQuestion
from experiments.tasks.wording import Elicitation

EVENT = Event(
    setting='Message: "{prompt}"',
    question='Would <your> reply name "{option}"',
    yes='<Your> reply would name "{option}".',
    no='<Your> reply would not name "{option}".',
)


def item(text: str = "Name a fish.", **fields: str) -> Item:
    message = {"role": "user", "content": text}
    return Item(
        "i", "t", "g", "s", (message,), answers=("cod",), fields={"option": "eel", **fields}
    )


def content(question: Elicitation | ValueQuestion, one: Item, **settings: bool) -> str:
    messages = question.prompt(one, **settings).messages
    assert messages is not None
    assert len(messages) == 1
    return messages[0]["content"]


def test_the_grid_is_four_wordings_in_both_orders() -> None:
    grid = EVENT.grid()
    assert len(grid) == len({question.name for question in grid}) == 8
    for first, second in zip(grid[::2], grid[1::2], strict=True):
        assert first.paraphrase == second.paraphrase
        assert sorted(content(first, item())) == sorted(content(second, item()))
        assert content(first, item()) != content(second, item())
    letters = {question.order: question for question in grid if question.paraphrase == "letters"}
    for order, letter in (("yes-first", "A"), ("no-first", "B")):
        assert letters[order].yes == letter
        assert f'{letter}. Your reply would name "eel".' in content(letters[order], item())


def test_framings_differ_in_who_is_asked_about_and_in_nothing_else() -> None:
    for question in EVENT.grid():
        own, other = content(question, item()), content(question.about_another(), item())
        assert "your reply" in own.lower()
        assert "you" not in other.lower().replace("you are", "")
        assert (
            other.replace("Another AI assistant's", "Your").replace(
                "another AI assistant's", "your"
            )
            == own
        )
        assert question.about_another().name == f"{question.name}/other"


def test_percent_asks_for_the_same_event() -> None:
    percent = EVENT.percent()
    assert 'How likely is it that your reply would name "eel"?' in content(percent, item())
    assert percent.parse("80%") == (80.0, "")
    assert "another AI assistant's reply" in content(EVENT.percent("other"), item())


@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
def test_texts_of_users_are_put_in_as_they_stand(text: str, option: str) -> None:
    """Braces, angle brackets and names of fields in a text are text."""
    one = item(text, option=option)
    for question in EVENT.grid():
        prompt = question.prompt(one)
        assert prompt.quote == text
        assert content(question, one).startswith(f'Message: "{text}"')
        assert option in content(question, one)


def test_a_field_may_be_quoted_in_place_of_the_text() -> None:
    one = item(prompt="Name a <your> {fish}.")
    prompt = EVENT.grid()[0].prompt(one)
    assert prompt.quote == "Name a <your> {fish}."
    assert "Name a fish." not in content(EVENT.grid()[0], one)


def test_the_answer_is_shown_only_where_it_is_revealed() -> None:
    for question in (*EVENT.grid(), EVENT.percent()):
        assert "cod" not in content(question, item())
        shown = content(question, item(), answer_revealed=True)
        assert "The right answer is: cod." in shown
        assert shown.index("fish") < shown.index("cod") < shown.rindex("eel")


def test_faults_name_the_item_and_the_mend() -> None:
    bare = Item("i", "t", "g", "s", ({"role": "user", "content": "x"},))
    with pytest.raises(ValueError, match="item 'i' has no 'option'"):
        EVENT.grid()[0].prompt(bare)
    with pytest.raises(ValueError, match="has none to reveal"):
        ValueQuestion("v", "{prompt}?", Number(0, 1)).prompt(bare, answer_revealed=True)


def test_the_question_about_the_input_speaks_of_the_input_alone() -> None:
    first, second = EVENT.input_questions()
    assert content(first, item()) == (
        'Message: "Name a fish."\n\nIs this message hard to answer? Answer Yes or No.'
    )
    assert content(second, item()).endswith("Answer No or Yes.")
    assert (first.framing, first.yes, first.no) == ("input", "Yes", "No")


@pytest.mark.parametrize("name", sorted(TASKS))
def test_no_task_asks_about_the_model_where_it_asks_about_the_input(name: str) -> None:
    task = TASKS[name]
    names = {question.name for question in task.elicitations}
    for question in task.event.input_questions():
        assert question.template.count("{prompt}") == 1
        assert not re.search(r"<you|\byou(r|rself)?\b|assistant", question.template, re.IGNORECASE)
        assert question.name not in names
