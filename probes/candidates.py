"""The cells of a grid, as nested selection and the maximum-statistic test take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from numpy.typing import ArrayLike

from probes.ridge import Refit

Read = Callable[[], ArrayLike]
"""Reads features `[item, feature]`, from a cache for example."""

_ONE_READER = Lock()


@dataclass(frozen=True)
class Deferred:
    """A source that is read anew whenever its candidate is evaluated, and held no longer than that."""

    read: Read


@dataclass(frozen=True)
class Candidate:
    """One cell of the grid.

    With several sources (the variants of a self-prediction prompt, each at its own slot) one probe
    is fitted a source; their scores are z-scored within the fold and averaged.
    """

    name: str
    sources: tuple[ArrayLike | Refit | Deferred, ...]
    """Each `[item, feature]`, or a callable from training rows to that (see `RidgeSource`), or deferred."""

    @classmethod
    def lazy(cls, name: str, *reads: Read) -> Candidate:
        """A candidate that is read only while it is evaluated, so that memory is flat in the number of cells.

        Args:
            name: of the cell.
            reads: a function without arguments a source, that returns its features `[item, feature]`. They are
                called one at a time, so that a reader need not be safe for threads, and once for every function
                that the candidate is given to.
        """
        return cls(name, tuple(Deferred(read) for read in reads))

    def read(self) -> tuple[ArrayLike | Refit, ...]:
        """The sources, deferred ones read."""
        return tuple(_read(source) for source in self.sources)


def _read(source: ArrayLike | Refit | Deferred) -> ArrayLike | Refit:
    if not isinstance(source, Deferred):
        return source
    with _ONE_READER:
        return source.read()
