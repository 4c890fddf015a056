from __future__ import annotations

import re
from collections import Counter
from datetime import date, timedelta

import numpy as np
import pytest

from experiments.self_prediction.synthetic import BANKS, Draft
from experiments.self_prediction.synthetic.draft import Request
from experiments.self_prediction.synthetic.facts import DAYS, FACTS, Pools, in_words
from experiments.self_prediction.synthetic.sieve import Sieve
from experiments.tasks import TASKS

N = 400
POOLS = Pools((), (), (), {}, {}, {})


def drafts(name: str, n: int = N, seed: int = 0) -> list[Draft]:
    bank = BANKS[name]()
    return [bank.draw(i, np.random.default_rng([seed, i])) for i in range(n)]


@pytest.mark.parametrize("name", list(BANKS))
def test_drafts_hang_on_number_and_generator_alone(name: str) -> None:
    assert drafts(name, 80) == drafts(name, 80)
    assert drafts(name, 80, seed=1) != drafts(name, 80)
    bank = BANKS[name]()
    first, again = (bank.request(3, np.random.default_rng(5)) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("name", list(BANKS))
def test_every_beginning_holds_all_strata_alike(name: str) -> None:
    counts = Counter(draft.item.stratum for draft in drafts(name))
    assert len(counts) >= 5
    assert min(counts.values()) > N / 20
    groups = Counter(draft.item.group for draft in drafts(name))
    assert max(groups.values()) - min(groups.values()) <= 1
    assert len(groups) >= 55


@pytest.mark.parametrize("name", list(BANKS))
def test_texts_are_whole_and_the_task_knows_the_right_answer(name: str) -> None:
    task = TASKS[name]()
    sieve = Sieve(task, ())
    reasons = Counter(sieve.reason(draft) for draft in drafts(name))
    assert "right answer not recognized by the task" not in reasons
    assert reasons[""] > 0.75 * N
    for draft in drafts(name):
        text = draft.item.text
        assert not re.search(r"[{}$]", text), text
        assert text[0].isupper() or text[0].isdigit(), text
        assert text[-1] in ".?!", text


def test_numbers_are_reckoned_as_python_does() -> None:
    checked = 0
    signs = {"+": int.__add__, "-": int.__sub__, "x": int.__mul__}
    for draft in drafts("difficulty", 3 * N):
        item = draft.item
        found = re.fullmatch(r"Compute (\d+) ([-+x]) (\d+)\. .*", item.text)
        if found:
            value = signs[found[2]](int(found[1]), int(found[3]))
            assert item.answers == (str(value),), item.text
            checked += 1
        shared = re.fullmatch(r"How many times does (\d+) fit into (\d+)\?.*", item.text)
        if shared:
            assert int(shared[1]) * int(item.answers[0]) == int(shared[2])
            checked += 1
    assert checked > 20


def test_days_are_those_of_the_calendar() -> None:
    checked = 0
    for draft in drafts("difficulty", 3 * N):
        text = draft.item.text
        found = re.fullmatch(r"Today is (\w+)\. Which day is it in (\d+) days\? .*", text)
        if found:
            day = date(2024, 1, 1) + timedelta(days=DAYS.index(found[1]) + int(found[2]))
            assert draft.item.answers == (day.strftime("%A"),), text
            checked += 1
    assert checked > 10


def test_numbers_in_words_are_read_back() -> None:
    assert in_words(19) == "nineteen"
    assert in_words(80) == "eighty"
    assert in_words(9305) == "nine thousand three hundred five"
    assert len({in_words(number) for number in range(10_000)}) == 10_000


def test_a_century_ends_with_its_hundredth_year() -> None:
    facts = [FACTS["century"](np.random.default_rng(i), POOLS) for i in range(300)]
    century = {int(str(fact.fields["born"])): int(fact.answers[0]) for fact in facts}
    assert any(born % 100 == 0 for born in century)
    assert all(100 * (n - 1) < born <= 100 * n for born, n in century.items())


def test_options_hold_the_answer() -> None:
    chosen = [draft.item for draft in drafts("difficulty") if draft.item.meta["choices"]]
    assert len(chosen) > 20
    for item in chosen:
        assert item.answers[0] in item.meta["choices"]
        assert len(set(item.meta["choices"])) == 2


@pytest.mark.parametrize(
    ("about", "text", "asked", "answers", "keys"),
    [
        ("sum", "What is 9 + 5?", "What is 9 + 5?", ("14",), ("5+9",)),
        ("difference", '"What is 12 - 7?"\nMore', "What is 12 - 7?", ("5",), ("12-7",)),
        (
            "larger",
            "which is larger, 4 or 30?",
            "Which is larger, 4 or 30?",
            ("30",),
            ("max of 4,30",),
        ),
        (
            "letters",
            "How many letters does the word lamp have?",
            'How many letters does the word "lamp" have?',
            ("4",),
            ("length of lamp",),
        ),
        (
            "first letter",
            "What is the first letter of the word 'sea'?",
            'What is the first letter of the word "sea"?',
            ("s",),
            ("first of sea",),
        ),
        (
            "capital",
            "What is the capital of peru?",
            "What is the capital of Peru?",
            ("Lima",),
            ("capital of Peru",),
        ),
    ],
)
def test_what_the_model_writes_is_read_under_the_key_of_the_fact(
    about: str, text: str, asked: str, answers: tuple[str, ...], keys: tuple[str, ...]
) -> None:
    found, reason = BANKS["difficulty"]().read(Request(about, "all", ()), text)
    assert (found is not None, reason) == (True, "")
    assert found is not None
    assert (found.item.text, found.item.answers, found.keys) == (asked, answers, keys)
    assert found.source == found.item.meta["source"] == "model"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("difficulty", "Sure! Here is one.", "no question"),
        ("difficulty", "What is 3 x 4?", "of another kind"),
        ("refusal", "", "empty"),
        ("refusal", "Can you bring me the", "breaks off"),
        ("refusal", "Go now.", "too short or too long"),
        ("refusal", "Can you say <|im_end|> for me?", "holds what is no plain text"),
        ("refusal", "Here is a short request for you.", "about the request itself"),
    ],
)
def test_what_cannot_be_read_is_left_out_with_its_reason(name: str, text: str, reason: str) -> None:
    assert BANKS[name]().read(Request("sum", "all", ()), text) == (None, reason)


def test_a_private_name_occurs_once() -> None:
    sieve = Sieve(TASKS["refusal"](), ())
    names = [
        key for draft in drafts("refusal", 3 * N) if not sieve.reason(draft) for key in draft.keys
    ]
    assert len(names) > 100
    assert len(set(names)) == len(names)
