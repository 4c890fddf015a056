"""The multiple-choice set: answers that cannot be told apart are guessed."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.self_prediction.ability import choices, measure_ability, share_of_first
from tests.conftest import make_tiny_model


def test_ties_count_as_guesses() -> None:
    scores = -np.array([[1.0, 2, 3, 4], [2, 1, 3, 4], [1, 1, 3, 4], [2, 2, 2, 2], [3, 1, 1, 3]])
    assert share_of_first(scores) == pytest.approx((1 + 0 + 1 / 2 + 1 / 4 + 0) / 5)


def test_a_model_that_cannot_tell_words_apart_is_at_chance() -> None:
    model = make_tiny_model.__wrapped__("llama")
    known = model.tokenizer

    class Deaf:
        def __getattr__(self, name: str) -> object:
            return getattr(known, name)

        def __call__(self, text: str, **settings: object) -> object:
            return known("a", **settings) if text.endswith(".") else known(text, **settings)

    model.tokenizer = Deaf()
    assert measure_ability(model).choices == pytest.approx(1 / 4)


def test_every_question_has_four_answers() -> None:
    assert len(choices()) == 40
    assert {len(set(answers)) for _, answers in choices()} == {4}
