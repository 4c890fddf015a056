from __future__ import annotations

import pytest

from benchmarks.fictional_persons import EMBEDDING, TFIDF, score_persons
from benchmarks.persons import FICTIONAL, REAL
from hooks import Model


def test_no_surname_gives_a_name_away() -> None:
    surnames = [name.split()[-1] for name in (*REAL, *FICTIONAL)]
    assert len(REAL) >= 60
    assert len(FICTIONAL) >= 60
    assert len(set(surnames)) == len(surnames)


@pytest.mark.slow
def test_tfidf_alone_would_have_been_fooled(embedded_model: Model) -> None:
    persons = score_persons(embedded_model, n_regroupings=2)
    tfidf, embedding = persons.text(*TFIDF), persons.text(EMBEDDING)
    assert persons.auroc(tfidf.scores).high < 0.75
    fooled = persons.gain(tfidf)
    assert fooled.low > 0.25
    # The embedding takes back most of it, and still knows fewer persons than the model does.
    assert persons.gain(embedding).estimate < 0.5 * fooled.estimate
