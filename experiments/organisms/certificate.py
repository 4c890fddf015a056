"""The certificate: planted against diagnosed, and how often a diagnosis is right, wrong or left open."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from experiments.breakdown import STAGES
from experiments.finished import load_run
from experiments.organisms.certificate_figure import write_figure
from experiments.organisms.conditions import Diagnosed, diagnosed
from experiments.organisms.planted import PLANTED_STAGES
from experiments.records import json_number, write_json, write_text

OUTCOMES: tuple[Diagnosed, ...] = get_args(Diagnosed)
FEW_ITEMS = 100
"""Up to so many, what counts is that a diagnosis is not wrong; beyond, that it is right."""
NEVER_BEYOND_TEXT = ("shuffled outcome", "label of the text")


@dataclass(frozen=True)
class Trained:
    """A run on a trained organism."""

    planted: str
    run: str
    stage: str
    diagnosed: Diagnosed


def trained_rows(named: Iterable[str]) -> list[Trained]:
    """Read the diagnoses of finished runs, each given as STAGE=RUN.

    Raises ValueError for another form or stage, and for a folder that holds no finished run with one diagnosed task.
    """
    rows = []
    for pair in named:
        stage, is_pair, folder = pair.partition("=")
        if not is_pair or stage not in PLANTED_STAGES:
            raise ValueError(
                f"trained: {pair!r} is no STAGE=RUN; stages are {', '.join(PLANTED_STAGES)}"
            )
        found = load_run(folder).breakdown()
        rows.append(Trained(stage, Path(folder).name, found.stage, diagnosed(stage, found)))
    return rows


@dataclass(frozen=True)
class Bar:
    """A share that must not be over, or under, a limit."""

    name: str
    share: float
    limit: float
    is_met: bool


@dataclass(frozen=True)
class Certificate:
    """What came out of a certification."""

    table: pd.DataFrame
    """A row a simulation, as `certify` makes it."""
    trained: tuple[Trained, ...] = ()

    @property
    def sizes(self) -> list[tuple[int, float]]:
        """Numbers of items with their margins, in the order of the table."""
        pairs = self.table[["n", "delta"]].drop_duplicates()
        return [(int(n), float(delta)) for n, delta in pairs.itertuples(index=False)]

    def confusion(self, n: int, delta: float, suite: str = "standard") -> pd.DataFrame:
        """Counts of simulations, planted stages as rows and diagnosed ones as columns."""
        rows = self._at(n, delta, suite)
        counts = pd.crosstab(rows["name"], rows["stage"])
        return counts.reindex(index=list(PLANTED_STAGES), columns=list(STAGES), fill_value=0)

    @cached_property
    def shares(self) -> pd.DataFrame:
        """Of every condition: how many simulations, and what share is right, wrong or undetermined."""
        by = ["n", "delta", "suite", "name", "multiple"]
        groups = self.table.groupby(by, dropna=False, sort=False)["diagnosed"]
        shares = groups.value_counts(normalize=True).unstack(fill_value=0)
        shares = shares.reindex(columns=list(OUTCOMES), fill_value=0.0)
        shares.insert(0, "simulations", groups.size())
        return shares.reset_index()

    def bars(self) -> list[Bar]:
        """What the certificate must show."""
        return [bar for n, delta in self.sizes for bar in self._bars(n, delta)]

    def lines(self) -> list[str]:
        """The certificate as text."""
        return list(self._lines())

    def to_json(self) -> dict[str, Any]:
        """`certificate.json`."""
        shares = self.shares
        return {
            "confusion": [
                {"n": n, "delta": delta, "suite": suite, "planted": self._counts(n, delta, suite)}
                for n, delta in self.sizes
                for suite in ("standard", "large")
                if len(self._at(n, delta, suite))
            ],
            "conditions": [
                {
                    name: json_number(value) if isinstance(value, float) else value
                    for name, value in row.items()
                }
                for row in shares.to_dict("records")
            ],
            "bars": [asdict(bar) | {"share": json_number(bar.share)} for bar in self.bars()],
            "trained": [asdict(row) for row in self.trained],
        }

    def write(self, out: Path) -> None:
        """Write certificate.json, certificate.csv (a row a condition), and the figure where there are graded plants."""
        write_json(out / "certificate.json", self.to_json())
        write_text(out / "certificate.csv", self.shares.round(6).to_csv(index=False))
        shares = self.shares
        if (shares["suite"] == "graded").any():
            write_figure(shares, out / "certificate")

    def _at(self, n: int, delta: float, suite: str) -> pd.DataFrame:
        table = self.table
        return table[(table["n"] == n) & (table["delta"] == delta) & (table["suite"] == suite)]

    def _counts(self, n: int, delta: float, suite: str) -> dict[str, dict[str, int]]:
        return {
            str(planted): {str(stage): int(count) for stage, count in row.items()}
            for planted, row in self.confusion(n, delta, suite).iterrows()
        }

    def _bars(self, n: int, delta: float) -> Iterator[Bar]:
        where = f"n = {n}, d = {delta:g}"
        rows = self._at(n, delta, "standard")
        if not len(rows):
            return
        stages = list(rows.groupby("name", sort=False)["diagnosed"])
        if n <= FEW_ITEMS:
            yield from (_at_most(f"{where}: wrong, {name}", one, 0.08) for name, one in stages)
        else:
            yield _at_least(f"{where}: right, all stages", rows["diagnosed"], 0.95)
            yield _at_most(f"{where}: wrong, all stages", rows["diagnosed"], 0.02)
            yield from (_at_least(f"{where}: right, {name}", one, 0.92) for name, one in stages)
            yield from (_at_most(f"{where}: wrong, {name}", one, 0.04) for name, one in stages)
        variants = self._at(n, delta, "variant").groupby("name", sort=False)["diagnosed"]
        for name, one in variants:
            yield _at_most(
                f"{where}: wrong, {name}", one, 0.05 if name in NEVER_BEYOND_TEXT else 0.08
            )

    def _lines(self) -> Iterator[str]:
        for n, delta in self.sizes:
            for suite in ("standard", "large"):
                if not len(self._at(n, delta, suite)):
                    continue
                kind = "" if suite == "standard" else ", large differences"
                yield f"n = {n}, margin {delta:g}{kind}: planted (rows) against diagnosed"
                yield from self.confusion(n, delta, suite).to_string().splitlines()
                yield ""
            yield from self._graded_lines(n, delta)
            yield from self._variant_lines(n, delta)
        for row in self.trained:
            yield f"trained to be {row.planted}: {row.stage}, {row.diagnosed} ({row.run})"
        bars = self.bars()
        missed = [bar for bar in bars if not bar.is_met]
        for bar in missed:
            yield f"missed: {bar.name}: {bar.share:.3f}, limit {bar.limit:g}"
        if bars and not missed:
            yield f"all {len(bars)} bars are met"

    def _graded_lines(self, n: int, delta: float) -> Iterator[str]:
        rows = self._shares_at(n, delta, "graded")
        if not len(rows):
            return
        yield f"n = {n}, margin {delta:g}: % right / wrong / undetermined over the loss in margins"
        rows = rows.assign(cell=rows.apply(_percentages, axis=1))
        table = rows.pivot(index="name", columns="multiple", values="cell")
        yield from table.reindex(list(PLANTED_STAGES)).to_string().splitlines()
        yield ""

    def _variant_lines(self, n: int, delta: float) -> Iterator[str]:
        rows = self._shares_at(n, delta, "variant")
        if not len(rows):
            return
        yield f"n = {n}, margin {delta:g}: % right / wrong / undetermined of variants"
        width = rows["name"].str.len().max()
        for row in rows.to_dict("records"):
            yield f"{row['name']:<{width}}  {_percentages(row)}"
        yield ""

    def _shares_at(self, n: int, delta: float, suite: str) -> pd.DataFrame:
        shares = self.shares
        return shares[(shares["n"] == n) & (shares["delta"] == delta) & (shares["suite"] == suite)]


def _percentages(row: Mapping[Hashable, Any]) -> str:
    return " / ".join(f"{100 * row[outcome]:.0f}" for outcome in OUTCOMES)


def _at_least(name: str, outcomes: pd.Series[str], limit: float) -> Bar:
    share = float((outcomes == "right").mean())
    return Bar(name, share, limit, share >= limit)


def _at_most(name: str, outcomes: pd.Series[str], limit: float) -> Bar:
    share = float((outcomes == "wrong").mean())
    return Bar(name, share, limit, share <= limit)
