from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from experiments.behavior import Behavior
from experiments.self_prediction.synthetic import Draft
from experiments.self_prediction.synthetic.balance import Pairs
from experiments.self_prediction.synthetic.duplicates import NEAR, Seen
from experiments.self_prediction.synthetic.sieve import Sieve, unverified
from experiments.tasks import DifficultyTask, Item
from experiments.tasks.item import user
from tests.experiments.self_prediction.synthetic.small_bank import draft

TEXTS = (
    "could you water the tulips in the kitchen",
    "could you water the tulips in the garden",
    "could you water the tulips in the kitchens",
    "please name three kinds of cheese",
    "could you please water the tulips in the kitchen",
    "hi",
)


FACT = "operands:2,5"


def asks(text: str, key: str, **meta: list[str]) -> Draft:
    made = draft(text, text, "all")
    item = replace(made.item, answers=("7",), meta={**made.item.meta, **meta})
    return replace(made, item=item, keys=(key,))


def jaccard(a: str, b: str) -> float:
    """With every pair compared."""
    first, second = ({text[i : i + 5] for i in range(len(text) - 4)} for text in (a, b))
    return len(first & second) / len(first | second)


@pytest.mark.parametrize(("a", "b"), list(product(TEXTS[:5], TEXTS[:5])))
def test_near_is_by_the_jaccard_index_of_pieces_of_five_characters(a: str, b: str) -> None:
    seen = Seen()
    seen.add("an unrelated sentence about the sea", "x")
    seen.add(a, "x")
    expected = "duplicate" if a == b else "near duplicate" if jaccard(a, b) >= NEAR else ""
    assert seen.verdict(b, "y") == expected


def test_no_near_text_is_missed_among_many() -> None:
    rng = np.random.default_rng(0)
    words = np.array(["sea", "wind", "poem", "short", "answer", "word", "request", "capital"])
    sentences = [rng.choice(words, 12) for _ in range(20)]
    texts = []
    for _ in range(120):
        changed = sentences[rng.integers(20)].copy()
        changed[rng.integers(12, size=2)] = rng.choice(words, 2)
        texts.append(" ".join(changed))
    texts = list(dict.fromkeys(texts))
    seen = Seen()
    found = 0
    for i, text in enumerate(texts):
        near = any(jaccard(text, other) >= NEAR for other in texts[:i])
        assert seen.verdict(text, "y") == ("near duplicate" if near else "")
        found += near
        seen.add(text, "x")
    assert 3 < found < 100


def test_both_verdicts_occur_above() -> None:
    indices = [jaccard(a, b) for a, b in product(TEXTS[:5], TEXTS[:5]) if a != b]
    assert min(indices) < 0.1
    assert any(index >= NEAR for index in indices)
    assert any(0.5 < index < NEAR for index in indices)


def test_case_and_punctuation_tell_nothing_apart() -> None:
    seen = Seen()
    seen.add("What is 3 + 4?", "x")
    assert seen.verdict("what is  3 + 4", "x") == "duplicate"
    assert seen.verdict("What is 3 - 4?", "x") == ""


def test_the_fills_of_one_template_may_be_alike() -> None:
    seen = Seen()
    seen.add(TEXTS[0], "template")
    assert seen.verdict(TEXTS[2], "template") == ""
    assert seen.verdict(TEXTS[2], "another") == "near duplicate"


def test_short_texts_are_told_apart() -> None:
    seen = Seen()
    seen.add("hi", "x")
    assert seen.verdict("ho", "y") == ""
    assert seen.verdict("Hi!", "y") == "duplicate"


def test_a_fact_is_asked_for_once_and_never_one_of_a_test_item() -> None:
    tested = [Item("t", "difficulty", "t", "sums", user("What is 2 + 5?"), meta={"shares": [FACT]})]
    sieve = Sieve(DifficultyTask(), tested)
    assert sieve.reason(asks("Add 3 to 4, please.", "3+4", shares=["operands:3,4"])) == ""
    again = asks("How much do 4 and 3 make together?", "3+4", shares=["operands:3,4"])
    assert sieve.reason(again) == "fact or name used before"
    other = asks("Take 2 and put 5 to it. What is it?", "2+5", shares=[FACT])
    assert sieve.reason(other) == "about the same as a test item"
    same = asks("what is 2 + 5", "2 + 5", shares=[])
    assert sieve.reason(same) == "as a test item, or nearly"
    unknown = asks("Is it red or blue?", "color", shares=[], choices=["red", "blue"])
    assert sieve.reason(unknown) == "right answer not recognized by the task"


def test_an_outcome_counts_where_all_judges_agree() -> None:
    behavior = Behavior(
        item="i", task="t", completions=("a",), n_tokens=(1,), labels=("right",), outcomes=(1,),
        votes={"strict": ("right",), "lenient": ("right",)}, values={}, rate=1.0, outcome=1, reason="",
    )  # fmt: skip
    assert unverified(behavior) == ""
    split = replace(behavior, votes={"strict": ("right",), "lenient": ("wrong",)})
    assert unverified(split) == "judges disagree"
    unscored = replace(behavior, outcome=None, rate=None, reason="empty")
    assert unverified(unscored) == "unscored: empty"


def test_pairs_are_of_one_stratum_and_come_in_order() -> None:
    rng = np.random.default_rng(0)
    pairs: Pairs[int] = Pairs()
    added = [("ab"[rng.integers(2)], int(rng.random() < 0.3)) for _ in range(60)]
    beginnings = []
    for i, (stratum, outcome) in enumerate(added):
        pairs.add(stratum, outcome, i)
        beginnings.append(list(pairs.kept))
    for before, after in pairwise(beginnings):
        assert after[: len(before)] == before
    for (one, first), (other, second) in zip(pairs.kept[::2], pairs.kept[1::2], strict=True):
        assert (first, second) == (1, 0) == (added[one][1], added[other][1])
        assert added[one][0] == added[other][0]
    events = {letter: [i for i, one in enumerate(added) if one == (letter, 1)] for letter in "ab"}
    for letter, own in events.items():
        kept = [i for i, outcome in pairs.kept if outcome and added[i][0] == letter]
        assert kept == own[: len(kept)]
    assert pairs.n_waiting == 60 - len(pairs.kept)
