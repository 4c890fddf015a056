"""Scores against the figures that the benchmark's authors published, each difference with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path

from experiments.csv_files import csv_header
from experiments.self_execution.released import finite, released_rows, require_file

EXACT = 1e-9
"""Relative difference up to which two figures are the same number."""

_MODEL_COLUMNS = ("model", "model_name")
_PUBLISHED_AS = {
    "claude-3.5-haiku": "anthropic-claude-3.5-haiku",
    "deepseek-deepseek-chat-v3-0324": "deepseek-deepseek-chat-v3",
    "deepseek-v3": "deepseek-deepseek-chat-v3",
    "gemini-2.5-flash": "google-gemini-2.5-flash-preview",
    "gpt-4.1-mini": "openai-gpt-4.1-mini",
    "llama-3.1-8b": "meta-llama-llama-3.1-8b-instruct",
    "llama-4-scout": "meta-llama-llama-4-scout",
    "mistral-7b-instruct": "mistralai-mistral-7b-instruct",
    "qwen2.5-7b": "qwen-qwen-2.5-7b-instruct",
}
"""Names of released files whose figures are published under another name."""

Published = Mapping[str, Mapping[str, float | None]]
"""By model, then by metric; None where the table holds no number."""


@dataclass(frozen=True)
class OtherCount:
    """Metrics counted by another rule than ours, which would explain a published figure."""

    reason: str
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Cell:
    """A cell of a released file that follows from its other cells."""

    name: str
    given: float | str
    ours: float | str


@dataclass(frozen=True)
class Figures:
    """What one model's files give, to be held against the published figures."""

    model: str
    metrics: Mapping[str, float]
    """Under the published names."""
    other_counts: Sequence[OtherCount] = ()
    cells: Sequence[Cell] = ()
    not_had: Mapping[str, str] = field(default_factory=dict)
    """Published metrics that the files do not give, with the reason."""


@dataclass(frozen=True)
class Difference:
    """A published figure that does not come out."""

    model: str
    metric: str
    published: float | str
    ours: float | str
    reason: str | None
    """The rule under which it does come out; None where none is known."""


@dataclass(frozen=True)
class Comparison:
    """The published figures of all models given."""

    n_equal: int
    n_cells_equal: int
    differences: tuple[Difference, ...]
    not_compared: tuple[str, ...]
    """What could not be held against anything, with the reason."""

    @property
    def n_unexplained(self) -> int:
        """Differences without a reason."""
        return sum(one.reason is None for one in self.differences)


def read_published(path: Path) -> Published:
    """Read a table of published figures: a column `model` or `model_name`; the others hold numbers.

    Raises:
        ValueError: no file, no column of models, no row, or no CSV in UTF-8.
    """
    require_file(path, "published")
    header = csv_header(path)
    name = next((one for one in _MODEL_COLUMNS if one in header), _MODEL_COLUMNS[0])
    metrics = [column for column in header if column != name]
    return {
        _canonical(row[name]): {metric: finite(row[metric]) for metric in metrics}
        for _, row in released_rows(path, (name, *metrics), "published")
    }


def compare_published(figures: Sequence[Figures], published: Published) -> Comparison:
    """Hold figures against the published ones of the same model; counts exactly, other numbers to 1e-9.

    A difference is explained where the published number is what one of the model's `other_counts` gives.
    """
    n_equal = n_cells_equal = 0
    differences: list[Difference] = []
    without: dict[tuple[str, str], list[str]] = {}
    for one in figures:
        for metric, value in published.get(published_name(one.model), {}).items():
            ours = one.metrics.get(metric)
            if value is None or ours is None:
                reason = one.not_had.get(metric, "no number" if ours is None else "not published")
                without.setdefault((metric, reason), []).append(one.model)
            elif is_same(value, ours):
                n_equal += 1
            else:
                rule = _reason(one, metric, value)
                differences.append(Difference(one.model, metric, value, ours, rule))
        for cell in one.cells:
            if is_same(cell.given, cell.ours):
                n_cells_equal += 1
            else:
                differences.append(Difference(one.model, cell.name, cell.given, cell.ours, None))
    not_compared = [
        f"{metric} of {', '.join(models)}: {reason}" for (metric, reason), models in without.items()
    ]
    names = {published_name(one.model): one.model for one in figures}
    not_compared += [f"{names[name]}: nothing published" for name in names if name not in published]
    if absent := [name for name in published if name not in names]:
        not_compared.append(f"{', '.join(absent)}: no file given")
    return Comparison(n_equal, n_cells_equal, tuple(differences), tuple(not_compared))


def published_name(model: str) -> str:
    """The name under which the figures of a released file are published."""
    name = _canonical(model)
    return _PUBLISHED_AS.get(name, name)


def is_same(first: float | str, second: float | str) -> bool:
    """Whether two figures are one: the same number up to 1e-9, or the same text."""
    if isinstance(first, str) or isinstance(second, str):
        return first == second
    return isclose(first, second, rel_tol=EXACT, abs_tol=EXACT)


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """The comparison as sentences, a line each."""
    yield f"{comparison.n_equal} published figures come out."
    if comparison.n_cells_equal:
        yield f"{comparison.n_cells_equal} cells of the files come out of their other cells."
    for one in comparison.differences:
        given, ours = (
            value if isinstance(value, str) else f"{value:.10g}"
            for value in (one.published, one.ours)
        )
        yield (
            f"{one.model}, {one.metric}: published {given}, here {ours}: {one.reason or 'unexplained'}"
        )
    yield from (f"not compared: {line}" for line in comparison.not_compared)


def _reason(figures: Figures, metric: str, published: float) -> str | None:
    for count in figures.other_counts:
        value = count.metrics.get(metric)
        if value is not None and is_same(value, published):
            return count.reason
    return None


def _canonical(model: str) -> str:
    """Files and tables write the maker's name with a slash, an underscore or a hyphen after it."""
    return model.strip().lower().replace("/", "-").replace("_", "-")
