"""What an answer says, how near it is to the truth, and what a constant answer would score."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from experiments.tasks.forms import Choice, Form, Number, Ranking, Text
from experiments.tasks.parsing import named_option, unwrapped
from experiments.word_scores import best_constant, score_answers, split_gain

LETTERS = Choice(("A", "B", "C"))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("B", ("B", "")),
        ("b", ("B", "")),
        ("(B)", ("B", "")),
        ("**B.** because", ("B", "")),
        ("The answer is C.", ("C", "")),
        ('{"answer": "B"}', ("B", "")),
        ('```json\n{"answer": "B"}\n```', ("B", "")),
        ('```\n{"answer": "B"', ("B", "")),
        ('{"reason": "long", "answer": "C"}', ("C", "")),
        ('{"ans": "B"}', ("B", "")),
        ('{"answer": "B", "rea', ("B", "")),
        ("a cat", (None, "no option named")),
        ("A cat", (None, "no option named")),
        ("A good one is B", ("B", "")),
        ("A is right", ("A", "")),
        ("not A", (None, "option denied")),
        ("It isn't the B", (None, "option denied")),
        ("A or B", (None, "several options named")),
        ("", (None, "empty")),
        ("```json\n{}\n```", (None, "empty")),
    ],
)
def test_a_choice_is_read_from_json_letters_and_prose(
    answer: str, expected: tuple[str | None, str]
) -> None:
    assert LETTERS.parse(answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("70", (70.0, "")),
        ("70%", (70.0, "")),
        ("about 70 out of 100", (70.0, "")),
        ("70/100", (70.0, "")),
        ("seventy-five", (75.0, "")),
        ('{"probability": 12.5}', (12.5, "")),
        ("70. Yes, 70.", (70.0, "")),
        ("between 60 and 70", (None, "several numbers")),
        ("170", (None, "out of range")),
        ("-3", (None, "out of range")),
        ("likely", (None, "no number")),
        ("No one knows", (None, "no number")),
        ("The right one is 70", (70.0, "")),
        ("one", (1.0, "")),
        ("one percent", (1.0, "")),
        ("twenty-one of them", (21.0, "")),
        ("", (None, "empty")),
        ("nan", (None, "no number")),
        ("1e999", (None, "several numbers")),
    ],
)
def test_a_number_is_read_from_digits_and_words(
    answer: str, expected: tuple[float | None, str]
) -> None:
    assert Number(0, 100).parse(answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("3, 1, 2, 4", [3, 1, 2, 4]),
        ("Q3 < Q1 < Q2 < Q4", [3, 1, 2, 4]),
        ('["Q3", "Q1", "Q2", "Q4"]', [3, 1, 2, 4]),
        ('```json\n{"order": [3, 1, 2, 4]}\n```', [3, 1, 2, 4]),
        ("3 1 2", None),
        ("3, 1, 2, 2", None),
        ("none", None),
    ],
)
def test_a_ranking_must_be_an_order_of_all(answer: str, expected: list[int] | None) -> None:
    assert Ranking(4).parse(answer)[0] == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('"The"\nand more', ("the", "")),
        ("**I'm**", ("i'm", "")),
        ('The first word would be "Once".', ("once", "")),
        ('{"first_word": "Well,"}', ("well", "")),
        ("Hello! How can I help", (None, "several words")),
        ('"Yes" or "No"', (None, "several words")),
        ("  \n ", (None, "empty")),
        ("...", (None, "empty")),
    ],
)
def test_a_word_is_read_alone_or_in_quotes(answer: str, expected: tuple[str | None, str]) -> None:
    assert Text().parse(answer) == expected


def test_a_word_is_compared_without_case_and_quotes() -> None:
    assert Text().score("the", "The") == Text().score("i'm", '"I\'m"') == 1.0
    assert Text().score("the", "then") == 0.0


@given(st.text(max_size=60))
def test_no_answer_breaks_a_form(answer: str) -> None:
    for form in (LETTERS, Number(0, 100), Text(), Ranking(4)):
        value, reason = form.parse(answer)
        assert (value is None) == bool(reason)
        unwrapped(answer)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_is_unwrapped_to_text(value: object) -> None:
    assert isinstance(unwrapped(json.dumps({"answer": value})), str)


@given(st.permutations(range(1, 5)), st.permutations(range(1, 5)))
def test_a_ranking_without_levels_is_kendalls_tau_as_a_share(
    first: list[int], second: list[int]
) -> None:
    places = [[order.index(thing) for thing in range(1, 5)] for order in (first, second)]
    tau = kendalltau(*places).statistic
    assert Ranking(4).score(first, [[one] for one in second]) == pytest.approx((tau + 1) / 2)


@given(st.permutations(range(1, 5)), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_a_ranking_is_scored_by_its_pairs(said: list[int], places: list[int]) -> None:
    """Against a count pair by pair: who stands level stands right either way."""
    levels = [[i + 1 for i in range(4) if places[i] == level] for level in sorted(set(places))]
    wrong = sum(places[a - 1] > places[b - 1] for i, a in enumerate(said) for b in said[i + 1 :])
    assert Ranking(4).score(said, levels) == pytest.approx(1 - wrong / 6)


TRUTHS: list[tuple[Form, st.SearchStrategy]] = [
    (LETTERS, st.sampled_from("ABC")),
    (Choice(("1", "2", "3", "4")), st.lists(st.sampled_from("1234"), min_size=1, unique=True)),
    (Number(0, 100), st.floats(0, 100)),
    (Number(-10, 10), st.floats(-30, 30)),
    (Text(), st.sampled_from(["The", "a", "I"])),
    (Text(), st.lists(st.sampled_from(["The", "a", "I"]), min_size=1, unique=True)),
    (Ranking(3), st.sampled_from([[[1], [2], [3]], [[3], [1, 2]], [[2, 3], [1]], [[1, 2, 3]]])),
]


@pytest.mark.parametrize(("form", "truths"), TRUTHS, ids=lambda x: type(x).__name__)
def test_constants_have_no_skill_and_oracles_all_there_is(
    form: Form, truths: st.SearchStrategy
) -> None:
    @settings(max_examples=30)
    @given(st.lists(truths, min_size=4, max_size=20))
    def check(trues: list) -> None:
        groups = [str(i) for i in range(len(trues))]
        constant, scores = best_constant(form, trues)
        assert score_answers(form, [constant] * len(trues), trues, groups).skill.estimate == 0
        for other in form.constants(trues):
            skill = score_answers(form, [other] * len(trues), trues, groups).skill.estimate
            assert skill <= 1e-12
        oracle = [
            form.parse(true if isinstance(true, str) else true[-1])[0]
            if isinstance(form, Text)
            else _said(form, true)
            for true in trues
        ]
        oracle = [o if o is not None else t for o, t in zip(oracle, trues, strict=True)]
        best = score_answers(form, oracle, trues, groups)
        assert best.strict.estimate == pytest.approx(1)
        assert best.skill.estimate == pytest.approx(1 - scores.mean())
        silent = score_answers(form, [None] * len(trues), trues, groups)
        assert silent.strict.estimate == 0
        assert silent.lenient is None

    check()


def _said(form: Form, true: object) -> object:
    if isinstance(form, Ranking):
        return [thing for level in true for thing in reversed(level)]
    if isinstance(form, Number):
        return min(max(true, form.low), form.high)
    return true[0] if isinstance(form, Choice) and isinstance(true, list) else true


@given(st.lists(st.floats(0, 100), min_size=2, max_size=10), st.floats(0, 100))
def test_no_number_beats_the_mean_of_the_truths(trues: list[float], other: float) -> None:
    form = Number(0, 100)
    mean = np.mean([form.score(form.constants(trues)[0], true) for true in trues])
    assert np.mean([form.score(other, true) for true in trues]) <= mean + 1e-9


@given(
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_the_parts_of_a_gain_sum_to_it(rates: tuple[int, int], scores: tuple[int, int]) -> None:
    """Against the definition: each factor's change averaged over both orders of changing them."""
    p, c = ([Fraction(one, 20) for one in pair] for pair in (rates, scores))
    gain = split_gain(tuple(map(float, p)), tuple(map(float, c)))
    assert gain.total == pytest.approx(float(p[1] * c[1] - p[0] * c[0]))
    assert gain.format + gain.quality == pytest.approx(gain.total)
    by_order = [(p[1] - p[0]) * c[0], (p[1] - p[0]) * c[1]]
    assert gain.format == pytest.approx(float(sum(by_order) / 2))


def test_an_unreadable_channel_counts_as_zero() -> None:
    gain = split_gain((0.0, 0.5), (None, 0.8))
    assert gain.total == pytest.approx(0.4)
    assert gain.format + gain.quality == pytest.approx(0.4)


def test_scores_of_a_small_example_by_hand() -> None:
    trues = ["A", "A", "B", "A"]
    said = ["A", None, "B", "B"]
    score = score_answers(LETTERS, said, trues, ["1", "2", "3", "4"], ["", "empty", "", ""])
    assert score.strict.estimate == 0.5
    assert score.lenient == pytest.approx(2 / 3)
    assert (score.constant, score.constant_score) == ("A", 0.75)
    assert score.skill.estimate == -0.25
    assert score.parse_rate.estimate == 0.75
    assert score.unscored == {"empty": 1}


def test_the_pronoun_i_is_no_letter() -> None:
    letters = Choice(("I", "M", "T"))
    assert letters.parse("I think it would be T") == ("T", "")
    assert letters.parse("I'm sorry, but") == (None, "no option named")
    assert letters.parse("I'm")[0] is None
    assert letters.parse("I") == letters.parse("It would be I.") == ("I", "")


def test_options_of_several_words_are_searched_whole() -> None:
    assert named_option("I would pick the second change", ("first change", "second change")) == (
        "second change",
        "",
    )
