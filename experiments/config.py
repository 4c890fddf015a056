"""What a run was asked to do: one flat record, from the command line, a YAML file or Python."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from experiments.elicitation import Words
from experiments.endpoint.address import checked_url
from experiments.item_columns import parse_columns
from experiments.runnable import RUNNABLE
from experiments.tasks import TASKS, families
from hooks import CaptureSpec

PRESETS: dict[str, dict[str, Any]] = {
    "quickstart": {"n": 320, "paraphrases": 2, "words": "short"},
}
"""Named settings; what is given beside a preset wins over it. Without one, all items and four paraphrases."""


OF_ACTIVATIONS = ("peer", "other_contexts", "dtype", "site", "layers", "positions")
"""Settings that mean nothing where a model is known by its words alone."""


class RunConfig(BaseModel):
    """The settings of a run; `config.yaml` in its folder holds all of them, defaults filled in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: tuple[str, ...]
    """Names of tasks, as `selfprobe tasks` lists them."""
    model: str = "smollm2-135m"
    """A name from `selfprobe models`, a hub id, a local folder or a .gguf file."""
    endpoint: str | None = None
    """Base URL of an OpenAI-compatible chat endpoint that serves `model`: words alone, no activations."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """Of the endpoint, at most; None is as fast as it answers. Another pace is the same run."""
    peer: str | None = None
    """Another model that reads the same items, by the same kinds of name: what could be known without being `model`."""
    n: int | None = Field(default=None, ge=20)
    """Items a task at most, whole groups; None takes all."""
    items: Path | None = None
    """The user's own items (JSON Lines) in place of the task's."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Of that file: field -> the column that holds it, where it has another name."""
    items_sha256: str | None = None
    """Of that file, filled in: a run with other items is another run."""
    seed: int = Field(default=0, ge=0)
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    samples: int = Field(default=1, ge=1)
    """Completions an item: 1 is greedy, more are sampled at temperature 1."""
    site: str = "resid_post"
    layers: tuple[int, ...] | Literal["all"] = "all"
    positions: tuple[str, ...] = ("instruction_last", "mean_instruction", "prompt_last")
    """Positions of the task context that the probe may choose from."""
    paraphrases: int = Field(default=4, ge=1, le=4)
    """Wordings of the self-prediction question, each asked in both option orders."""
    answer_revealed: bool = False
    """Whether the self-prediction prompts show the reference answer: a condition of its own."""
    words: Words = "full"
    """"full" has every wording answered in words, about itself and another assistant; "short" the first alone."""
    other_contexts: bool = False
    """Whether the model is also asked about another assistant and about the input itself, at one wording; with "full"
    words it is in any case."""
    folds: int = Field(default=5, ge=3, le=20)
    regroupings: int = Field(default=5, ge=5)
    """Times the folds are drawn anew; METHODS ask for at least 5."""
    permutations: int = Field(default=199, ge=199)
    """Whole-group permutations behind a p-value."""

    def __hash__(self) -> int:
        """Of all settings; a mapping among them has no hash of its own."""
        return hash(self.model_dump_json())

    @model_validator(mode="before")
    @classmethod
    def _hash_items(cls, settings: Any) -> Any:
        items = settings.get("items")
        named = isinstance(items, str | Path) and items
        if named and "items_sha256" not in settings and Path(items).is_file():
            digest = hashlib.sha256(Path(items).read_bytes()).hexdigest()
            return {**settings, "items_sha256": digest}
        return settings

    @field_validator("tasks", "positions", mode="before")
    @classmethod
    def _names(cls, names: Any) -> Any:
        if isinstance(names, str):
            return [name.strip() for name in names.split(",")]
        if not isinstance(names, list | tuple):
            raise ValueError("must be a list of names")
        return names

    @field_validator("layers", mode="before")
    @classmethod
    def _layer_ranges(cls, layers: Any) -> Any:
        if isinstance(layers, str):
            return parse_layers(layers)
        whole = isinstance(layers, list | tuple) and layers
        if not whole or any(isinstance(layer, bool) for layer in layers):
            raise ValueError("must be all, or blocks such as [0, 4] or 10-20")
        return layers

    @field_validator("columns", mode="before")
    @classmethod
    def _column_pairs(cls, columns: Any) -> Any:
        return parse_columns(columns) if isinstance(columns, str) else columns

    @field_validator("endpoint")
    @classmethod
    def _plain_url(cls, endpoint: str | None) -> str | None:
        return None if endpoint is None else checked_url(endpoint)

    @field_validator("tasks")
    @classmethod
    def _known_tasks(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        of_family = families()
        tasks = tuple(name for given in tasks for name in of_family.get(given, (given,)))
        for name in tasks:
            if name not in RUNNABLE:
                raise ValueError(
                    f"unknown task {name!r}; `selfprobe tasks` lists {', '.join(TASKS)} "
                    f"and the families {', '.join(of_family)}"
                )
        if not tasks or len(set(tasks)) < len(tasks):
            raise ValueError("give at least one task, none of them twice")
        return tasks

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        self._check_endpoint()
        self.probed_spec()  # refuses an unknown site, layer or position
        if self.peer == self.model:
            raise ValueError("peer: is the model itself; name another model")
        if self.items is not None and len(self.tasks) > 1:
            raise ValueError("own items belong to one task; give one task with `items`")
        if self.columns and self.items is None:
            raise ValueError("columns: map the columns of `items`; give that file too")
        return self

    def _check_endpoint(self) -> None:
        if self.endpoint is None:
            if self.requests_per_minute is not None:
                raise ValueError("requests_per_minute: is of an endpoint; give endpoint too")
            return
        if "model" not in self.model_fields_set:
            raise ValueError("model: name the model that the endpoint is to answer with")
        for name in OF_ACTIVATIONS:
            if getattr(self, name) != RunConfig.model_fields[name].default:
                raise ValueError(f"{name}: an endpoint gives no activations; leave it out")

    def probed_spec(self) -> CaptureSpec:
        """The cells that the probe of the task context may choose from."""
        return CaptureSpec(sites=(self.site,), layers=self.layers, positions=self.positions)

    def task_spec(self) -> CaptureSpec:
        """What is captured in the task context: the probe's cells, and the embedding layer as a control."""
        sites, positions = ((self.site, "embed"), (*self.positions, "mean_instruction"))
        return CaptureSpec(
            sites=tuple(dict.fromkeys(sites)),
            layers=self.layers,
            positions=tuple(dict.fromkeys(positions)),
        )

    def report_spec(self) -> CaptureSpec:
        """What is captured in the self-prediction context: the end of the quote and the answer slot."""
        return CaptureSpec(
            sites=(self.site,), layers=self.layers, positions=("quote_last", "prompt_last")
        )

    @property
    def asks_other_contexts(self) -> bool:
        """Whether the model is asked about another assistant and about the input itself."""
        return self.endpoint is None and (self.words == "full" or self.other_contexts)

    def to_yaml(self) -> str:
        """All settings, in the order above."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


def parse_layers(text: str) -> str | list[int]:
    """Read `all`, or block numbers and ranges such as `0,4,10-20`.

    Raises:
        ValueError: anything else.
    """
    if text == "all":
        return text
    layers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if first > last:
            raise ValueError(f"{part!r} is neither a block nor a range such as 10-20")
        layers.update(range(first, last + 1))
    return sorted(layers)


def make_config(settings: Mapping[str, Any], *, preset: str | None = None) -> RunConfig:
    """A config from settings, over those of a preset.

    Raises:
        ValueError: an unknown preset or setting, or a value out of range; one line names it.
    """
    for name in settings:
        if name not in RunConfig.model_fields:
            allowed = ", ".join(RunConfig.model_fields)
            raise ValueError(f"{name}: no such setting; allowed are {allowed}")
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"preset: unknown {preset!r}; allowed are {', '.join(PRESETS)}")
    try:
        return RunConfig(**{**PRESETS.get(preset or "", {}), **settings})
    except ValidationError as error:
        raise ValueError(one_line(error)) from None


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a YAML file, unchecked.

    Raises:
        ValueError: no such file, or one that does not hold a mapping.
    """
    if not path.is_file():
        raise ValueError(f"config: no file {path}")
    try:
        settings = yaml.load(path.read_text(encoding="utf-8-sig"), _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"config: {path} is not YAML ({first})") from None
    if not isinstance(settings, dict):
        raise ValueError(f"config: {path} must hold a mapping of settings to values")
    return settings


class _Loader(yaml.SafeLoader):
    """Refuses a mapping that has a key twice, of which YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name!r} stands there twice; give it once")
        return super().construct_mapping(node, deep)


def one_line(error: ValidationError) -> str:
    """The first fault that pydantic found, as one line that names the field, what is wrong and what was given."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "settings"
    message = first["msg"].removeprefix("Value error, ").removeprefix(f"{name}: ")
    given = first.get("input")
    # A URL that was refused may hold a key.
    shown = f" (given: {given!r:.60})" if first["loc"] and name != "endpoint" else ""
    return f"{name}: {message}{shown}" if first["loc"] else message
