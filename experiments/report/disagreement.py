"""The items on which probe and words part: on opposite sides of 0.5, so that one was right."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from experiments.report.formatting import MISSING

PREVIEW = 140
"""Characters of a text that are shown before it is expanded."""

LIMIT = 2000
"""Rows of the table: more would make a page that no browser opens gladly."""

SIDES = ("probe", "words")


@dataclass(frozen=True)
class Text:
    """A text as the page shows it: whole, and cut where it is long (`rest` is then true)."""

    whole: str
    preview: str
    rest: bool

    @classmethod
    def of(cls, value: object) -> Text:
        """Cut at a space where there is one near."""
        whole = MISSING if value is None or value is pd.NA or value != value else str(value).strip()
        line = " ".join(whole.split())
        if len(line) <= PREVIEW:
            return cls(whole, line, rest=False)
        cut = line[:PREVIEW]
        return cls(whole, cut.rsplit(" ", 1)[0] if " " in cut[PREVIEW // 2 :] else cut, rest=True)


@dataclass(frozen=True)
class Disagreement:
    """One item: what it asked, what the model did, what either said, and who was right."""

    item: str
    stratum: str
    prompt: Text
    completion: Text
    happened: bool
    probe_probability: float
    verbal_probability: float
    answer: str
    probe_was_right: bool

    @property
    def apart(self) -> float:
        """How far probe and words are from each other."""
        return round(abs(self.probe_probability - self.verbal_probability), 6)

    @property
    def right(self) -> str:
        """Who was right, one of `SIDES`."""
        return SIDES[0] if self.probe_was_right else SIDES[1]


@dataclass(frozen=True)
class Disagreements:
    """The disagreements, widest first, and the counts over all of them."""

    sides = SIDES
    rows: list[Disagreement]
    n: int
    n_groups: int
    n_compared: int
    n_groups_compared: int
    probe_right: int

    @property
    def words_right(self) -> int:
        """On how many of the `n` the words were right."""
        return self.n - self.probe_right

    @property
    def strata(self) -> list[str]:
        """The strata of the rows, each once."""
        return sorted({row.stratum for row in self.rows})


def disagreements(scores: pd.DataFrame, limit: int = LIMIT) -> Disagreements:
    """Where probe and words fall on opposite sides of 0.5, widest first.

    Args:
        scores: the rows of one task; `probe_probability` and `verbal_probability` are cross-fitted.
        limit: how many rows to keep; the counts are over all of them.
    """
    needed = ["outcome", "probe_probability", "verbal_probability"]
    known = scores.dropna(subset=needed) if set(needed) <= set(scores) else scores.iloc[:0]
    if known.empty:
        return Disagreements([], 0, 0, 0, 0, 0)
    probe, words = (known[name].astype(float) for name in needed[1:])
    part = (probe > 0.5) != (words > 0.5)
    right = (probe > 0.5) == (known["outcome"] == 1)
    width = (probe - words).abs()[part]
    order = width.sort_values(ascending=False, kind="stable").index[:limit]
    return Disagreements(
        rows=[_row(known.loc[index], bool(right.loc[index])) for index in order],
        n=int(part.sum()),
        n_groups=int(known.loc[part, "group"].nunique()),
        n_compared=len(known),
        n_groups_compared=int(known["group"].nunique()),
        probe_right=int(right[part].sum()),
    )


def _row(item: pd.Series[float], probe_was_right: bool) -> Disagreement:
    answer = item.get("verbal_answer")
    answers = {0: "no", 1: "yes"}
    return Disagreement(
        item=str(item["item"]),
        stratum=str(item["stratum"]),
        prompt=Text.of(item["text"]),
        completion=Text.of(item["completion"]),
        happened=bool(item["outcome"] == 1),
        probe_probability=round(float(item["probe_probability"]), 6),
        verbal_probability=round(float(item["verbal_probability"]), 6),
        answer="unreadable" if answer is None or pd.isna(answer) else answers[int(answer)],
        probe_was_right=probe_was_right,
    )
