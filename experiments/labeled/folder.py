"""What `selfprobe probe` leaves behind, and how a folder that is there already is met.

A probe is computed whole and then written: `probe.yaml` first, which says what was asked, and `results.json` last,
which marks the folder as finished. So a probe that was stopped starts anew and finds its own traces; a finished one of
the same question is read back; one of another question is refused and never lost. One process at a time is at work in
a folder, and knows before the work that it can write there.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from activations_cache import ActivationsCache
from experiments.labeled.figures import write_labeled_figures
from experiments.labeled.labels import Labels
from experiments.labeled.measured import ProbeSettings
from experiments.labeled.probe import SCHEMA, LabeledProbe
from experiments.records import read_json, write_json, write_text
from experiments.run_folder import was_only_claimed

Asked = Mapping[str, Any]


def asked_of(
    cache: ActivationsCache, labels: Labels, settings: ProbeSettings, texts: Sequence[str] | None
) -> Asked:
    """All that the result depends on: hashes of states, labels and texts, and the settings."""
    of_labels = [labels.kind, *labels.ids, *labels.y.tolist(), *labels.groups.tolist()]
    return {
        "cache": _digest([dict(cache.fingerprint), sorted(cache.ids), list(cache.cells())]),
        "labels": _digest(of_labels),
        "texts": None if texts is None else _digest(list(texts)),
        "unlabeled": len(labels.unlabeled),
        "kind": labels.kind,
        **vars(settings),
    }


class ProbeFolder:
    """The folder of one probe of own labels."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = path / "probe.yaml"
        self.results = path / "results.json"
        self.table = path / "results.csv"
        self.scores = path / "scores.csv"
        self.probe = path / "probe"
        self.lock = FileLock(path / ".lock", timeout=0)

    def finished(self, asked: Asked) -> dict[str, Any] | None:
        """The results, if the folder holds those of the same question; None if there is still work to do.

        Raises:
            ValueError: a file in the place of the folder, a folder with other files, one of another question, or
                damaged results.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"out: {self.path} is a file; name a folder")
        if not self.path.exists():
            return None
        if not self.asked.is_file():
            if was_only_claimed(self.path, self.asked):
                return None
            raise ValueError(f"out: {self.path} holds other files; name a new or empty folder")
        held = self._read_asked()
        differing = [name for name in asked if held.get(name) != asked[name]]
        if differing:
            raise ValueError(
                f"out: {self.path} holds a probe of {_told(differing, held, asked)}; name another folder, or delete "
                "that one"
            )
        left = (self.results, self.table, self.scores, *_files_of(self.probe))
        if not all(path.is_file() for path in left):
            return None
        mend = "delete it and run the same command again"
        result = read_json(self.results, mend)
        told = result.get("schema"), result.get("kind"), isinstance(result.get("probe"), dict)
        if told != (SCHEMA, asked["kind"], True):
            raise ValueError(f"{self.results} is damaged (it holds no such probe); {mend}")
        return result

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Be the only process at work in the folder; work that fails before `write` leaves no folder behind.

        Raises:
            ValueError: a folder that cannot be written, or another process at work in it.
        """
        made = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock.acquire()
        except Timeout:
            raise ValueError(
                f"out: another process is at work in {self.path}; wait for it or name another folder"
            ) from None
        except OSError as error:
            raise ValueError(
                f"out: cannot write to {self.path} ({error.strerror}); name another folder"
            ) from None
        try:
            yield
        finally:
            if made and was_only_claimed(self.path, self.asked):
                shutil.rmtree(self.path, ignore_errors=True)
            self.lock.release()

    def write(self, probed: LabeledProbe, asked: Asked) -> None:
        """Write `probe.yaml`, tables, the probe and the figures, and `results.json` last, into a claimed folder."""
        write_text(self.asked, yaml.safe_dump(dict(asked), sort_keys=False))
        write_text(self.table, probed.table.to_csv(index=False, lineterminator="\n"))
        write_text(self.scores, probed.scores.to_csv(index=False, lineterminator="\n"))
        probed.probe.write(self.probe, {"model": probed.result["model"]})
        write_labeled_figures(probed.result, probed.scores, self.path)
        write_json(self.results, probed.result)

    def _read_asked(self) -> dict[str, Any]:
        try:
            held = yaml.safe_load(self.asked.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError):
            held = None
        if not isinstance(held, dict):
            raise ValueError(f"out: {self.asked} is damaged; name another folder, or delete it")
        return held


def _files_of(probe: Path) -> tuple[Path, Path]:
    return probe.with_name(f"{probe.name}.safetensors"), probe.with_name(f"{probe.name}.json")


def _told(differing: Sequence[str], held: Asked, asked: Asked) -> str:
    """What another probe differs in: `other labels`, or `another setting (folds: 5 there, 4 asked for)`."""
    for name, told in (
        ("cache", "another cache"),
        ("labels", "other labels"),
        ("texts", "other prompts (or none)"),
    ):
        if name in differing:
            return told
    name = differing[0]
    return f"another setting ({name}: {held.get(name)!r} there, {asked[name]!r} asked for)"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
