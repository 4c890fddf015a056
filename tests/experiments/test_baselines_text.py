from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from experiments.baselines import (
    Family,
    label_rates,
    length_features,
    opening_words,
    projected_tfidf,
    text_families,
    tfidf_characters,
    tfidf_words,
)

TEXTS = [
    "What is the phone number of Ada Lovelace?",
    "What is the capital of France?  And of Peru?",
    "7 + 8 = ?",
    "Please PAY my bill, please; then book a table.",
    "Naïve café: write a poem about a café",
    "?!",
    "Write, write, write a draft",
    "What is 12 * 3",
]
VECTORIZERS = {
    "words": (tfidf_words, {"ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"}),
    "characters": (tfidf_characters, {"ngram_range": (2, 5), "analyzer": "char_wb"}),
}


@pytest.mark.parametrize("kind", VECTORIZERS)
@settings(max_examples=30, deadline=None)
@given(train=st.sets(st.sampled_from([0, 1, 2, 3, 4, 6, 7]), min_size=1))
def test_tfidf_is_that_of_a_vectorizer_fitted_on_the_training_rows(
    kind: str, train: set[int]
) -> None:
    make_family, options = VECTORIZERS[kind]
    rows = np.array(sorted(train))
    reference = TfidfVectorizer(sublinear_tf=True, **options).fit([TEXTS[row] for row in rows])
    features = make_family(TEXTS)(rows)
    assert sparse.issparse(features)
    np.testing.assert_allclose(
        features.toarray(), reference.transform(TEXTS).toarray(), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("kind", VECTORIZERS)
def test_a_random_projection_keeps_the_angles_of_the_training_rows_tfidf(kind: str) -> None:
    """Johnson and Lindenstrauss: inner products are kept within a few times 1 / sqrt(dimension)."""
    options = VECTORIZERS[kind][1]
    train = np.array([0, 1, 3, 4])
    reference = TfidfVectorizer(sublinear_tf=True, **options).fit([TEXTS[row] for row in train])
    rows = reference.transform(TEXTS).toarray()
    projected = projected_tfidf(TEXTS, 10_000)[kind](train)
    assert projected.shape == (len(TEXTS), 10_000)
    np.testing.assert_allclose(projected @ projected.T, rows @ rows.T, atol=0.05)
    again = projected_tfidf(TEXTS, 10_000)[kind](train)
    np.testing.assert_array_equal(again, projected)
    assert not np.allclose(projected_tfidf(TEXTS, 10_000, seed=1)[kind](train), projected)


def test_a_family_can_be_fitted_again_on_other_rows() -> None:
    family = tfidf_words(TEXTS)
    first = family(np.array([0, 1])).toarray()
    family(np.array([3, 4, 6]))
    np.testing.assert_array_equal(family(np.array([0, 1])).toarray(), first)


def test_texts_without_words_have_constant_features() -> None:
    assert tfidf_words(["?", "!"])(np.array([0])).toarray().tolist() == [[0.0], [0.0]]
    unseen = tfidf_words(["?", "word"])(np.array([0])).toarray()
    assert unseen.tolist() == [[0.0], [0.0]]
    assert projected_tfidf(["?", "word"], 3)["words"](np.array([0])).tolist() == [[0.0] * 3] * 2


def test_label_rates_are_training_means() -> None:
    strata = ["a", "a", "b", "b", "b", "c"]
    y = [1, 0, 1, 1, 0, 1]
    features = label_rates(strata, y)(np.array([0, 2, 3, 1]))
    np.testing.assert_allclose(features[:, 0], [0.5, 0.5, 1.0, 1.0, 1.0, 0.75])


def test_length_features() -> None:
    features = length_features(["two words", ""])
    np.testing.assert_allclose(features, [[9, 2, np.log(10), np.log(3)], [0, 0, 0, 0]])


def test_opening_words() -> None:
    assert opening_words(["What is  it", "Pay", ""]) == ["what is", "pay", ""]


@pytest.fixture(scope="module")
def families() -> dict[str, Family]:
    strata = ["x", "y"] * 4
    return text_families(TEXTS, strata, opening_words(TEXTS), [0, 1, 1, 0, 1, 0, 0, 1])


def test_families_give_features_of_all_rows(families: dict[str, Family]) -> None:
    assert list(families) == [
        "stratum",
        "type",
        "length",
        "tfidf_words",
        "tfidf_characters",
        "embedding",
    ]
    for family in families.values():
        assert family(np.array([0, 2, 3])).shape[0] == len(TEXTS)
    assert families["embedding"](np.array([0])).shape == (8, 384)


def test_no_family_looks_at_held_out_outcomes(families: dict[str, Family]) -> None:
    train = np.array([0, 1, 2, 3])
    flipped = text_families(TEXTS, ["x", "y"] * 4, opening_words(TEXTS), [0, 1, 1, 0, 0, 1, 1, 0])
    for name in ("stratum", "type"):
        np.testing.assert_array_equal(families[name](train), flipped[name](train))


def test_values_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="strata: 1 values for 8 texts"):
        text_families(TEXTS, ["x"], ["t"] * 8, [0] * 8)
