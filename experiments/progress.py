"""Progress for a person: bars with time left on a terminal, plain lines when piped, silence in a library call."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[int], None]


class Reporter(Protocol):
    """Shows how far a stage is: `with reporter.stage("behavior", 320) as advance: advance(32)`."""

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Open a stage of `total` steps; the value of the context counts steps done."""
        ...


class Silent:
    """Shows nothing."""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Open a stage that nobody watches."""
        yield lambda steps: None


class Bars:
    """A rich progress bar with the time left, a line a stage."""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Open a bar of `total` steps."""
        columns = (
            TextColumn("{task.description:<34}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(name, total=total)
            yield lambda steps: bar.advance(task, steps)


class Lines:
    """Plain lines to `stream`: one when a stage starts, one about every `seconds`, one when it ends."""

    def __init__(self, stream: TextIO | None = None, seconds: float = 15.0) -> None:
        self.stream = stream
        self.seconds = seconds

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Open a stage of `total` steps."""
        start = shown = time.monotonic()
        done = 0

        def advance(steps: int) -> None:
            nonlocal done, shown
            done += steps
            now = time.monotonic()
            if done and done < total and now - shown >= self.seconds:
                left = (now - start) / done * (total - done)
                self._print(f"{name}: {done}/{total}, about {clock(left)} left")
                shown = now

        self._print(f"{name} ...")
        yield advance
        self._print(f"{name}: done in {clock(time.monotonic() - start)}")

    def _print(self, line: str) -> None:
        print(line, file=self.stream or sys.stderr, flush=True)


def reporter_for_stderr() -> Reporter:
    """Bars where standard error is a terminal, lines elsewhere."""
    return Bars() if sys.stderr.isatty() else Lines()


def clock(seconds: float) -> str:
    """Seconds as minutes and seconds, 75 as 1:15, or with hours before."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
