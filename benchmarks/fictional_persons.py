"""Is this person fictional? The text decides, words do not: `python -m benchmarks.fictional_persons`.

Every person is a group of three prompts, so that no name is seen in training. A probe that beats
TF-IDF here has found no self-knowledge: the label is one of the text, and takes knowledge of the
world. The sentence embedding is the reader of the text that has some.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from benchmarks.persons import FICTIONAL, REAL
from benchmarks.simulations import print_header, print_row
from experiments.baselines import Family, sentence_embeddings, tfidf_characters, tfidf_words
from hooks import CaptureSpec, Model, Prompt, capture, load_model
from probes import (
    Candidate,
    Interval,
    NestedResult,
    auroc_difference,
    auroc_interval,
    cross_fitted_stack,
    nested_ridge,
    stacked_gain,
    stacked_training_scores,
)

TEMPLATES = ("Who is {}?", "Tell me about {}.", "What would {} say about the weather?")
LAYERS = (4, 9, 14, 19, 24, 29)
POSITION = "instruction_last"
TFIDF = ("TF-IDF words", "TF-IDF characters")
EMBEDDING = "sentence embedding"


@dataclass(frozen=True)
class Text:
    """Everything that the text alone gives, stacked: scores, and what a further stack is fitted on."""

    scores: Float[np.ndarray, "regrouping item"]
    training_scores: Float[np.ndarray, "regrouping fold item"]


@dataclass(frozen=True)
class Persons:
    """The probe and every reader of the text, on the same items, folds and pairs."""

    y: Int[np.ndarray, "item"]
    groups: Int[np.ndarray, "item"]
    probe: NestedResult
    readers: Mapping[str, NestedResult]

    def auroc(self, scores: Float[np.ndarray, "regrouping item"]) -> Interval:
        """Of any out-of-fold scores."""
        return auroc_interval(self.y, scores, self.probe.folds, self.groups, estimand="procedure")

    def text(self, *names: str) -> Text:
        """The nested stack of some readers."""
        parts = [self.readers[name] for name in names]
        columns = np.stack([part.scores for part in parts], axis=-1)
        training = np.stack([part.training_scores for part in parts], axis=-1)
        folds = self.probe.folds
        return Text(
            cross_fitted_stack(columns, self.y, folds, training_columns=training),
            stacked_training_scores(training, self.y, folds),
        )

    def lead(self, text: Text) -> Interval:
        """AUROC of the probe minus that of the text: what a fooled reader would report."""
        return auroc_difference(
            self.y,
            self.probe.scores,
            text.scores,
            self.probe.folds,
            self.groups,
            estimand="procedure",
        )

    def gain(self, text: Text) -> Interval:
        """AUROC of text and probe stacked, minus the text alone."""
        return stacked_gain(
            self.y,
            text.scores,
            self.probe.scores,
            self.probe.folds,
            self.groups,
            training_scores=(text.training_scores, self.probe.training_scores),
        )


def score_persons(model: Model, *, n_regroupings: int = 5, seed: int = 0) -> Persons:
    """Capture the prompts, and score the probe and every reader of the text."""
    names = [*REAL, *FICTIONAL]
    groups = np.repeat(np.arange(len(names)), len(TEMPLATES))
    y = (groups >= len(REAL)).astype(np.int64)
    texts = [template.format(name) for name in names for template in TEMPLATES]

    def nested(candidates: list[Candidate], *, standardize: bool = True) -> NestedResult:
        return nested_ridge(
            candidates,
            y,
            groups,
            n_regroupings=n_regroupings,
            seed=seed,
            standardize=standardize,
        )

    tfidf: dict[str, Family] = dict(
        zip(TFIDF, (tfidf_words(texts), tfidf_characters(texts)), strict=True)
    )
    readers = {
        name: nested([Candidate(name, (family,))], standardize=False)
        for name, family in tfidf.items()
    }
    readers[EMBEDDING] = nested([Candidate(EMBEDDING, (sentence_embeddings(texts),))])
    return Persons(y, groups, nested(_cells(model, texts)), readers)


def _cells(model: Model, texts: list[str]) -> list[Candidate]:
    prompts = [
        Prompt(f"{number:03}", ({"role": "user", "content": text},))
        for number, text in enumerate(texts)
    ]
    rows: dict[str, np.ndarray] = {}
    for batch in capture(model, prompts, CaptureSpec(layers=LAYERS, positions=(POSITION,))):
        rows |= zip(batch.ids, batch.sites["resid_post"][:, :, 0].numpy(), strict=True)
    states = np.stack([rows[prompt.id] for prompt in prompts])
    return [Candidate(f"layer {layer}", (states[:, i],)) for i, layer in enumerate(LAYERS)]


def _shown(interval: Interval) -> str:
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    persons = score_persons(load_model(parser.parse_args().model))
    print(f"{len(REAL)} real and {len(FICTIONAL)} fictional persons, {len(persons.y)} prompts\n")
    print_header(["reader", "AUROC", "probe minus reader", "gain of the probe, stacked"])
    print_row(
        [f"probe ({persons.probe.modal[0]})", _shown(persons.auroc(persons.probe.scores)), "", ""]
    )
    stacks = {name: (name,) for name in (*TFIDF, EMBEDDING)}
    stacks |= {"both TF-IDF": TFIDF, "both TF-IDF and the embedding": (*TFIDF, EMBEDDING)}
    for name, parts in stacks.items():
        text = persons.text(*parts)
        figures = persons.auroc(text.scores), persons.lead(text), persons.gain(text)
        print_row([name, *map(_shown, figures)])


if __name__ == "__main__":
    main()
