"""The folder of a sweep: where every job's result lies, and whether it is finished."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from experiments.records import read_json, write_json, write_text
from experiments.run_folder import COLLECTED, RunFolder, was_only_claimed
from experiments.sweeps.jobs import Job

_PARTS = {"source": "sources", "text": "references", "null": "references", "cell": "cells"}
UNFINISHED = ".unfinished"
"""Ends the name of a folder that a job is being written into; it is renamed when the job is done."""


def read_result(folder: Path) -> dict[str, Any]:
    """The result in the folder of a text, null or cell.

    Raises:
        ValueError: it is damaged; the mend is named.
    """
    path, mend = folder / "result.json", f"delete {folder} and run the same command again"
    result = read_json(path, mend)
    if "skipped" not in result:
        raise ValueError(f"{path} is damaged (it holds no result); {mend}")
    return result


class SweepFolder:
    """Knows names alone: what is finished is read off the disk every time, for many processes write there."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.settings = self.path / "sweep.yaml"
        self.table = self.path / "results.csv"
        self.results = self.path / "results.json"
        self.figure = self.path / "sweep"
        self.lock = FileLock(self.path / ".lock", timeout=0)

    def of(self, job: Job) -> Path:
        """The folder of a job's result."""
        return self.path / _PARTS[job.kind] / job.name

    def result(self, job: Job) -> Path:
        """The JSON file of a finished text, null or cell."""
        return self.of(job) / "result.json"

    def failure(self, job: Job) -> Path:
        """Where the reason lies for which a job failed."""
        return self.path / "failures" / f"{job.kind}-{job.name}.json"

    def is_finished(self, job: Job) -> bool:
        """Whether a job's result is there, whole."""
        if job.kind == "source":
            folder = RunFolder(self.of(job))
            return all(folder.is_finished(stage) for stage in COLLECTED)
        return self.result(job).is_file()

    def is_settled(self, job: Job) -> bool:
        """Whether a job is finished or has failed."""
        return self.is_finished(job) or self.failure(job).is_file()

    def read_failure(self, job: Job) -> str | None:
        """The line for which a job failed, or None if it did not."""
        path = self.failure(job)
        if not path.is_file():
            return None
        return str(read_json(path, "delete it and run the same command again")["reason"])

    def note_failure(self, job: Job, reason: str, details: str) -> None:
        """Record that a job failed; the sweep goes on without it."""
        path = self.failure(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"settings": job.settings, "reason": reason, "details": details})

    def forget_failure(self, job: Job) -> None:
        """Take the record back: the job is tried again, or is done."""
        self.failure(job).unlink(missing_ok=True)

    def check(self) -> None:
        """Refuse a folder that holds something else.

        Raises:
            ValueError: a file in the place of the folder, or a folder of other files.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"out: {self.path} is a file; give a folder")
        if not self.path.exists() or self.settings.is_file():
            return
        if not was_only_claimed(self.path, self.settings):
            raise ValueError(f"out: {self.path} holds other files; give a new or empty folder")

    def claim(self, settings: Mapping[str, Any]) -> None:
        """Make the folder this sweep's, with this process the only one that hands out its work.

        Raises:
            ValueError: as `check`; a folder that cannot be written, or another sweep at work in it.
        """
        self.check()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock.acquire()
            write_text(self.settings, yaml.safe_dump(dict(settings), sort_keys=False))
        except Timeout:
            raise ValueError(
                f"out: another sweep is at work in {self.path}; wait for it or give another folder"
            ) from None
        except OSError as error:
            raise ValueError(
                f"out: cannot write to {self.path} ({error.strerror}); give another folder"
            ) from None
        for part in ("references", "cells"):
            for left in (self.path / part).glob(f"*{UNFINISHED}"):
                shutil.rmtree(left, ignore_errors=True)
