"""Sentences: what their planted words stand for, and that nothing else in them says it."""

import numpy as np

from experiments.organisms.sentences import (
    FORMS,
    N_WORDS,
    PERSON,
    PLACE,
    PLANTED,
    POOLS,
    THING,
    TokenSampler,
    draw,
    swapped,
    vocabulary,
)


def test_forms_have_one_length_and_keep_the_hidden_words_apart() -> None:
    for form in FORMS.values():
        assert len(form) == N_WORDS
        assert [form.count(planted) for planted in PLANTED] == [1, 1, 1]
        assert abs(form.index(PERSON) - form.index(PLACE)) >= 2


def test_no_word_stands_in_two_pools() -> None:
    words = [word for pool in POOLS.values() for word in pool]
    assert len(words) == len(set(words))


def test_sampled_tokens_spell_sentences_with_the_bits_that_are_said() -> None:
    words = list(vocabulary())
    drawn = TokenSampler({word: i for i, word in enumerate(words)}).draw(
        400, np.random.default_rng(0)
    )
    fixed = {name: [slot for slot in form if slot not in POOLS] for name, form in FORMS.items()}
    for row, tokens in enumerate(drawn.tokens):
        spelled = [words[token] for token in tokens]
        (name,) = (
            name
            for name, form in FORMS.items()
            if all(w in POOLS.get(slot, (slot,)) for w, slot in zip(spelled, form, strict=True))
        )
        assert [w for w in spelled if w in fixed[name]] == fixed[name]
        at = {planted: FORMS[name].index(planted) for planted in PLANTED}
        bits = {p: POOLS[p].index(spelled[i]) >= len(POOLS[p]) // 2 for p, i in at.items()}
        assert drawn.feature[row] == (bits[PERSON] != bits[PLACE])
        assert drawn.decoy[row] == bits[THING]
        assert drawn.complete_at[row] == max(at[PERSON], at[PLACE])
    assert 0.4 < drawn.feature.mean() < 0.6


def test_neither_hidden_word_alone_tells_the_feature() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw(rng) for _ in range(4000)]
    feature = np.array([sentence.feature for sentence in drawn])
    for planted in PLANTED:
        bit = np.array([sentence.bit(planted) for sentence in drawn])
        assert abs(feature[bit == 1].mean() - feature[bit == 0].mean()) < 0.06


def test_a_swap_changes_one_word_and_the_bit_that_was_asked_for() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        sentence = draw(rng)
        other = swapped(sentence, PERSON, rng, to_other_bit=True)
        same = swapped(sentence, PERSON, rng, to_other_bit=False)
        assert other.feature == 1 - sentence.feature
        assert same.feature == sentence.feature
        for changed in (other, same):
            differing = [a != b for a, b in zip(sentence.words, changed.words, strict=True)]
            assert differing.index(True) == sentence.where(PERSON)
            assert sum(differing) == 1
        assert swapped(sentence, THING, rng, to_other_bit=True).decoy == 1 - sentence.decoy
