"""What else could explain it: features of the text alone, fitted and scored like a probe."""

from experiments.baselines.embedding import sentence_embeddings
from experiments.baselines.text import (
    Family,
    length_features,
    opening_words,
    stratum_rates,
    text_families,
    tfidf_characters,
    tfidf_words,
    type_rates,
)

__all__ = [
    "Family",
    "length_features",
    "opening_words",
    "sentence_embeddings",
    "stratum_rates",
    "text_families",
    "tfidf_characters",
    "tfidf_words",
    "type_rates",
]
