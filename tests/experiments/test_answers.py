from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.tasks.answers import judge_answer, tokens

FRANCE = "What is the capital of France?"
SUM = "What is 7 + 5? Answer with a number."
LETTER = "Which letter does the word 'window' start with?"


@pytest.mark.parametrize(
    ("question", "answers", "completion", "outcome"),
    [
        (FRANCE, ["Paris"], "Paris", 1),
        (FRANCE, ["Paris"], "The capital of France is Paris.", 1),
        (FRANCE, ["Paris"], "Paris is the capital of France.", 1),
        (FRANCE, ["Paris"], "Paris is the old and splendid capital of France.", 1),
        (FRANCE, ["Paris"], "The capital of France is **Paris**, a city on the Seine", 1),
        (FRANCE, ["Paris"], "That is a good one! Paris.", 0),
        (FRANCE, ["Paris"], "The capital of France is Lyon, not Paris.", 0),
        (FRANCE, ["Paris"], "The capital of France is not Paris.", 0),
        (FRANCE, ["Paris"], "Paris is not the capital of France.", 0),
        (FRANCE, ["Paris"], "Paris isn't the capital of France.", 0),
        (FRANCE, ["Paris"], "Paris or Lyon", 0),
        (FRANCE, ["Paris"], "The capital of France is Lyon or Paris.", 0),
        (FRANCE, ["Paris"], "The capital of France is Parish.", 0),
        (FRANCE, ["Paris"], "The capital of France is", 0),
        ("What is the capital of Nepal?", ["Kathmandu"], "Katmandu", 0),
        ("What language is spoken in Brazil?", ["Portuguese"], "It is mostly Portuguese.", 1),
        ("Which city is it?", ["New Delhi", "Delhi"], "new delhi!", 1),
        ("What is the French word for school?", ["école"], "The French word is 'ecole'.", 1),
        ("What is the plural of 'sheep'?", ["sheep"], "The plural of 'sheep' is 'sheep'.", 1),
        ("What is the plural of 'sheep'?", ["sheep"], "The plural of 'sheep' is 'sheeps'.", 0),
        ("What language is spoken in Poland?", ["Polish"], "Polish is the official language", 1),
        (SUM, ["12"], "7 + 5 = 12", 1),
        (SUM, ["12"], "12 apples", 1),
        (SUM, ["12"], "The answer is 12.", 1),
        (SUM, ["12"], "The sum of 7 and 5 is twelve.", 1),
        (SUM, ["12"], "12 is what you get when you add 7 and 5.", 1),
        (SUM, ["12"], "7 + 5 = 7 + 5 = 12", 1),
        (SUM, ["12"], "7 + 5 = 125", 0),
        (SUM, ["12"], "7 + 5 = 12.5", 0),
        (SUM, ["12"], "The answer is -12.", 0),
        (SUM, ["12"], "The answer is 11 or 12.", 0),
        (SUM, ["12"], "The answer is 12 or 13.", 0),
        (SUM, ["12"], "The answer is 7.", 0),
        (SUM, ["12"], "To add 7 and 5, we need to", 0),
        ("What is 3 - 8?", ["-5"], "3 - 8 = -5", 1),
        ("What is 3 - 8?", ["-5"], "3 - 8 = 5", 0),
        ("What is 8 - 4?", ["4"], "8 - 4 = 4", 1),
        ("What is 8 - 4?", ["4"], "The difference of 8 and 4 is 3.", 0),
        ("How many meters are in a kilometer?", ["1000"], "There are 1,000 meters.", 1),
        ("How many meters are in a kilometer?", ["1000"], "A kilometer has one thousand meters", 1),
        ("How many letters are there?", ["26"], "There are twenty-six letters.", 1),
        (LETTER, ["w"], "The letter 'W' is the first letter of the word 'window'.", 1),
        (LETTER, ["w"], "W", 1),
        (LETTER, ["w"], "It starts with the letters 'wi'", 0),
        (LETTER, ["w"], "The word starts with d, then w", 0),
    ],
)
def test_free_answers(question: str, answers: list[str], completion: str, outcome: int) -> None:
    judgment = judge_answer(question, answers, completion)
    assert judgment.outcome == outcome
    assert judgment.label == ("right" if outcome else "wrong")


@pytest.mark.parametrize(
    ("completion", "outcome"),
    [
        ("A whale is a mammal.", 1),
        ("Mammal", 1),
        ("A mammal, not a fish.", 1),
        ("Of a mammal and a fish, it is a mammal.", 1),
        ("A whale is not a fish but a mammal.", 1),
        ("A whale is a fish.", 0),
        ("A fish, not a mammal.", 0),
        ("A whale is a fish or a mammal.", 0),
        ("A whale is both a mammal and a fish.", 0),
        ("The answer lies in the realm of biology.", 0),
    ],
)
def test_named_options(completion: str, outcome: int) -> None:
    question = "Is a whale a mammal or a fish?"
    judgment = judge_answer(question, ["a mammal"], completion, choices=["a mammal", "a fish"])
    assert judgment.outcome == outcome


def test_a_repeated_condition_chooses_nothing() -> None:
    question = "Who is older if Ann is younger than Ben?"
    completion = "If Ann is younger than Ben, Ben is older."
    assert judge_answer(question, ["Ben"], completion, choices=["Ann", "Ben"]).outcome == 1


def test_the_two_judges_vote_apart() -> None:
    judgment = judge_answer(FRANCE, ["Paris"], "Lyon, not Paris")
    assert judgment.votes == {"strict": "wrong", "lenient": "right"}
    assert judge_answer(FRANCE, ["Paris"], "Paris").votes == {"strict": "right", "lenient": "right"}


@pytest.mark.parametrize("empty", ["", "  \n", "...", "?!"])
def test_an_empty_completion_is_unscored(empty: str) -> None:
    judgment = judge_answer(FRANCE, ["Paris"], empty)
    assert (judgment.outcome, judgment.label, judgment.reason) == (None, "unscored", "empty")


def test_a_question_without_an_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="answers: none"):
        judge_answer(FRANCE, [], "Paris")


def test_tokens_spell_each_number_one_way() -> None:
    assert tokens("Seven, 7.0 and 07") == ["7", ",", "7", "and", "7"]
    assert tokens("1,000 or a thousand") == ["1000", "or", "1000"]
    assert tokens("17-8 = \u22129") == ["17", "8", "=", "-9"]


@given(value=st.integers(-9999, 9999))
def test_any_number_is_found_in_a_sentence_and_its_neighbor_is_not(value: int) -> None:
    assert judge_answer("How much is it?", [str(value)], f"It is {value:,}.").outcome == 1
    assert judge_answer("How much is it?", [str(value)], f"It is {value + 1}.").outcome == 0


@given(completion=st.text(max_size=60))
def test_any_completion_is_judged(completion: str) -> None:
    judgment = judge_answer("Is it hot or cold?", ["hot"], completion, choices=["hot", "cold"])
    assert judgment.outcome in {0, 1, None}
    assert judge_answer(SUM, ["12"], completion).label in {"right", "wrong", "unscored"}
