"""What else could explain it: features of the text alone, fitted and scored like a probe."""

from experiments.baselines.embedding import sentence_embeddings
from experiments.baselines.output_side import read_output_side
from experiments.baselines.stack import TextStack, nested_text_stack
from experiments.baselines.text import (
    Family,
    label_rates,
    length_features,
    opening_words,
    projected_tfidf,
    text_families,
    tfidf_characters,
    tfidf_words,
)

__all__ = [
    "Family",
    "TextStack",
    "label_rates",
    "length_features",
    "nested_text_stack",
    "opening_words",
    "projected_tfidf",
    "read_output_side",
    "sentence_embeddings",
    "text_families",
    "tfidf_characters",
    "tfidf_words",
]
