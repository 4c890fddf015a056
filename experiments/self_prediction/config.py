"""What a comparison was asked to do: one flat record, from a YAML file, a preset or Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from experiments.config import RunConfig, make_config, one_line, parse_layers

Method = Literal["words", "probe", "text", "head", "joint", "joint_stop_gradient", "sft", "rl"]
METHODS: dict[Method, str] = {
    "words": "words, untrained",
    "probe": "probe",
    "text": "text alone",
    "head": "head, frozen trunk",
    "joint": "head, trunk trained with it",
    "joint_stop_gradient": "head, trunk trained to say it",
    "sft": "words, SFT",
    "rl": "words, RL",
}
"""Every method by its label, in the order of the table."""
READ_AT_PLACE: tuple[Method, ...] = ("head", "joint", "joint_stop_gradient")
"""Heads: they sit where the probe was selected."""
TRAINS_TRUNK: tuple[Method, ...] = ("joint", "joint_stop_gradient", "sft", "rl")
"""Methods that train adapters of the model: what costs time, and what may cost general ability."""
IN_WORDS: tuple[Method, ...] = ("words", "sft", "rl")

Control = Literal["shuffled", "peer", "format"]
CONTROLS: dict[Control, str] = {
    "shuffled": "labels shuffled between groups",
    "peer": "another model's labels",
    "format": "reward for the form alone",
}

PRESETS: dict[str, dict[str, Any]] = {
    "cpu": {
        "tasks": ("refusal", "difficulty"),
        "n": 160,
        "sizes": (1,),
        "control_seeds": 1,
        "steps": 24,
        "learning_rate": 1e-3,
        "batch": 8,
        "group": 6,
        "evaluate_every": 8,
        "patience": 2,
        "precision": "bfloat16",
        "diagnosis": False,
        "workers": 2,
    },
}
"""Named settings; what is given beside a preset wins over it."""

IMMATERIAL = ("workers",)
"""Settings that may differ when a comparison is picked up."""
N_WORDINGS = 4


class TeachConfig(BaseModel):
    """The settings of a comparison; `config.yaml` in its folder holds all of them, defaults filled in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = "smollm2-135m"
    """As a run has it."""
    tasks: tuple[str, ...]
    """Each is learned by itself and tested on the next as well."""
    peer: str | None = None
    """Another model, whose labels of the same items are a control."""
    n: int | None = Field(default=None, ge=40)
    """Items a task at most, whole groups; None takes all."""
    methods: tuple[Method, ...] = tuple(METHODS)
    controls: tuple[Control, ...] | None = None
    """None is all that the settings give."""
    sizes: tuple[int, ...] = (1, 3, 10)
    """Times the training items: beyond 1 they are made and observed, and added to training alone."""
    seeds: int = Field(default=3, ge=1, le=50)
    """Times that everything is trained, with another order, another start and other items to stop by."""
    control_seeds: int | None = Field(default=None, ge=1)
    """The same of the controls of methods that train the model; None is `seeds`."""
    held_out: dict[str, str] = Field(default_factory=dict)
    """Task -> the stratum that is only tested on; where a task is not named the smallest that can be spared."""
    seed: int = Field(default=0, ge=0)
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    site: str = "resid_post"
    layers: tuple[int, ...] | Literal["all"] = "all"
    positions: tuple[str, ...] = ("instruction_last", "mean_instruction", "prompt_last")
    """What the probe may choose from; heads sit where it chose."""
    wordings: int = Field(default=1, ge=1, lt=N_WORDINGS)
    """Wordings of the question that are trained on, in both orders; the next one is only tested on."""
    head: Literal["linear", "mlp"] = "linear"
    rank: int = Field(default=16, ge=1)
    """Of the adapters."""
    steps: int = Field(default=200, ge=1)
    """Most steps of a method that trains the model."""
    head_steps: int = Field(default=400, ge=1)
    """Most steps of a head on a frozen trunk."""
    batch: int = Field(default=16, ge=1)
    """Items, or questions about items, a step."""
    accumulate: int = Field(default=1, ge=1)
    """Parts that a step is divided into, to save memory."""
    group: int = Field(default=8, ge=2)
    """Answers to a prompt that reinforcement learning draws."""
    temperature: float = Field(default=1.0, gt=0)
    refresh_every: int | None = Field(default=None, ge=1)
    """Steps of reinforcement learning after which the model acts anew, and what it then does is the truth; None keeps
    the labels. Of true labels alone."""
    learning_rate: float = Field(default=5e-4, gt=0)
    """Of the adapters."""
    head_learning_rate: float = Field(default=3e-3, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    evaluate_every: int = Field(default=10, ge=1)
    patience: int = Field(default=4, ge=1)
    """Evaluations without progress after which training stops."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of training."""
    diagnosis: bool = False
    """Whether words are diagnosed by a run of their own on the test items, before and after training."""
    workers: int = Field(default=1, ge=1, le=64)
    """Processes side by side, each of which holds the model."""

    def __hash__(self) -> int:
        """Of all settings; a mapping among them has no hash of its own."""
        return hash(self.model_dump_json())

    @field_validator("tasks", "positions", "methods", mode="before")
    @classmethod
    def _names(cls, names: Any) -> Any:
        return [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    @field_validator("layers", mode="before")
    @classmethod
    def _layer_ranges(cls, layers: Any) -> Any:
        return parse_layers(layers) if isinstance(layers, str) else layers

    @field_validator("sizes")
    @classmethod
    def _rising(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        if not sizes or sizes[0] != 1 or list(sizes) != sorted(set(sizes)):
            raise ValueError("must begin with 1 and rise, for example [1, 3, 10]")
        return sizes

    @model_validator(mode="after")
    def _consistent(self) -> TeachConfig:
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise ValueError("methods: give at least one, none of them twice")
        at_place = [method for method in READ_AT_PLACE if method in self.methods]
        if at_place and "probe" not in self.methods:
            raise ValueError(f"methods: {at_place[0]!r} sits where the probe reads; add 'probe'")
        if self.peer is None and "peer" in (self.controls or ()):
            raise ValueError("controls: 'peer' wants the labels of another model; give peer")
        for name in self.held_out:
            if name not in self.tasks:
                raise ValueError(f"held_out: {name!r} is not among the tasks")
        return self

    @property
    def all_controls(self) -> tuple[Control, ...]:
        """Those that are run."""
        if self.controls is not None:
            return self.controls
        return tuple(one for one in CONTROLS if one != "peer" or self.peer is not None)

    def run_config(self) -> RunConfig:
        """The run whose items, labels and activations are learned from.

        Raises:
            ValueError: an unknown task, site or position, or a value that a run refuses.
        """
        return make_config(
            {
                "model": self.model,
                "tasks": self.tasks,
                "n": self.n,
                "seed": self.seed,
                "dtype": self.dtype,
                "site": self.site,
                "layers": self.layers,
                "positions": self.positions,
                "paraphrases": self.wordings,
                "words": "short",
            }
        )

    def to_yaml(self) -> str:
        """All settings, in the order above."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


def make_teach_config(settings: Mapping[str, Any], *, preset: str | None = None) -> TeachConfig:
    """A config from settings, over those of a preset.

    Raises:
        ValueError: an unknown preset or setting, or a value out of range; one line names it.
    """
    for name in settings:
        if name not in TeachConfig.model_fields:
            raise ValueError(
                f"{name}: no such setting; allowed are {', '.join(TeachConfig.model_fields)}"
            )
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"preset: unknown {preset!r}; allowed are {', '.join(PRESETS)}")
    merged = {**PRESETS.get(preset or "", {}), **settings}
    if "tasks" not in merged:
        raise ValueError("tasks: name at least one; `selfprobe tasks` lists them")
    try:
        config = TeachConfig(**merged)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None
    config.run_config()
    return config
