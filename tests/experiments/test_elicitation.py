import re

import pytest

from experiments.tasks import TASKS, Elicitation, Item

LETTERS = Elicitation("l", "letters", "ab", "{prompt} A or B?", yes="A", no="B")
SPELLED = Elicitation("s", "s", "ab", "{prompt}\nA: right\nB: wrong", yes="A", no="B")
SAID = Elicitation("d", "d", "ab", "{prompt}\nA. I would answer.\nB. I would not.", yes="A", no="B")
MARKED = Elicitation(
    "m", "m", "ab", "{prompt}\nA. <Your> reply would rhyme.\nB. It would not.", yes="A", no="B"
)
AGREE = Elicitation("r", "agree", "yes-no", "{prompt} Right or wrong?", yes="Right", no="Wrong")
WORDS = Elicitation("w", "words", "yes-no", "{prompt} Yes or no?", yes="Yes", no="No")


@pytest.mark.parametrize(
    ("elicitation", "answer", "expected"),
    [
        (LETTERS, "A", (1, "")),
        (LETTERS, " b", (0, "")),
        (LETTERS, "B. I would", (0, "")),
        (LETTERS, "(A)", (1, "")),
        (LETTERS, "I'm a model", (None, "no option named")),
        (LETTERS, "A or B", (None, "both options named")),
        (LETTERS, "**A**", (1, "")),
        (SPELLED, "A", (1, "")),
        (SPELLED, "A: right", (1, "")),
        (SPELLED, "B. Wrong", (0, "")),
        (SPELLED, "A: wrong", (None, "letter and words disagree")),
        (SPELLED, "A: Paris", (None, "letter and words disagree")),
        (SAID, "A. I would answer.", (1, "")),
        (SAID, "A: I would not answer.", (None, "letter and words disagree")),
        (SAID, "B. I would not", (0, "")),
        (MARKED, "A. My reply would rhyme", (1, "")),
        (MARKED, "A. My reply would not", (None, "letter and words disagree")),
        (MARKED, "A good reply would rhyme", (None, "no option named")),
        (AGREE, "I'm not wrong. The word", (None, "option denied")),
        (AGREE, "You are right", (1, "")),
        (WORDS, "yes, I", (1, "")),
        (WORDS, "NO.", (0, "")),
        (WORDS, "Nobody", (None, "no option named")),
        (WORDS, "Yes or no", (None, "both options named")),
        (WORDS, "", (None, "empty")),
        (WORDS, "42 ...", (None, "empty")),
        (WORDS, "はい", (None, "no option named")),
    ],
)
def test_answers_are_parsed_or_say_why_not(elicitation, answer, expected) -> None:
    assert elicitation.parse(answer) == expected


@pytest.mark.parametrize("name", TASKS)
def test_elicitations_quote_first_and_come_in_both_orders(name: str) -> None:
    """The quoted prompt stands before the question; each paraphrase has two orders, side by side."""
    elicitations = TASKS[name].elicitations
    assert len(elicitations) == 8
    assert len({e.name for e in elicitations}) == 8
    named = {field for e in elicitations for field in re.findall(r"\{(\w+)\}", e.template)}
    item = Item(
        "i",
        name,
        "g",
        "s",
        ({"role": "user", "content": "Where is my {cat}?"},),
        fields={field: f"<{field}>" for field in named - {"prompt"}},
    )
    for first, second in zip(elicitations[::2], elicitations[1::2], strict=True):
        assert first.paraphrase == second.paraphrase
        assert first.order != second.order
        assert first.template != second.template
    for e in elicitations:
        prompt = e.prompt(item)
        assert prompt.quote == item.text
        content = prompt.messages[-1]["content"]
        assert content.count(item.text) == 1
        assert content.rindex("?") > content.index(item.text) + len(item.text)
        assert prompt.id == f"i/{e.name}"
