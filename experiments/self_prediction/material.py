"""What a comparison learns from and is tested on: an ordinary collected run, a peer's labels, made items.

Everything is collected once, by one process, before anything is trained; what learns reads it from the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float

from activations_cache import ActivationsCache
from activations_cache import Cell as Place
from experiments.behavior import Behavior, LocalRunner, label_behavior
from experiments.captures import capture_into
from experiments.items import item_from_row
from experiments.progress import Reporter
from experiments.records import read_rows, write_rows
from experiments.run import Experiment
from experiments.run_folder import RunFolder
from experiments.runnable import RUNNABLE
from experiments.self_prediction.cells import Cell
from experiments.self_prediction.config import TeachConfig
from experiments.self_prediction.labeled import Labeled, labeled_of
from experiments.self_prediction.splits import Parts, check_classes, split
from experiments.self_prediction.synthetic import synthesize
from experiments.self_prediction.synthetic.pipeline import BANKS
from experiments.tasks import Item, Task
from hooks import Model, load_model
from probes import whole_group_permutations

TESTS = {
    "held_out_groups": "held-out groups",
    "other_templates": "held-out templates",
    "other_wording": "held-out wording",
    "other_task": "held-out task",
}
"""What is tested on, by its label. Wordings are of words alone."""


class MaterialFolder:
    """Where the parts lie in the folder of a comparison."""

    def __init__(self, out: Path) -> None:
        self.run = RunFolder(out / "run")
        self._out = out

    def peer(self, task: str) -> Path:
        """What the peer did with the run's items."""
        return self._out / "peer" / f"{task}.jsonl"

    def made(self, task: str) -> Path:
        """Items beyond those of the run."""
        return self._out / "made" / task

    def made_cache(self, task: str) -> Path:
        """Their activations."""
        return self._out / "made_cache" / task


@dataclass(frozen=True)
class Material:
    """One task.

    Attributes:
        labeled: the run's items whose outcome is known.
        made: further items, for training alone; None where there are none.
        peer: item id -> what the peer did; empty where there is none.
        caches: activations in the task context, of the run's items and of those made.
    """

    labeled: Labeled
    made: Labeled | None
    peer: Mapping[str, int]
    caches: tuple[ActivationsCache, ...]
    config: TeachConfig

    @property
    def task(self) -> Task:
        """The task."""
        return self.labeled.task

    def parts(self, seed: int) -> Parts:
        """The run's items, divided; the seed moves items between training and validation alone.

        Raises:
            ValueError: too few items of a class.
        """
        return split(
            self.labeled,
            seed=self.config.seed,
            validation_seed=seed,
            held_out=self.config.held_out.get(self.task.name, "auto"),
        )

    def training(self, cell: Cell) -> tuple[Labeled, Labeled]:
        """What a cell learns from and what it stops by, with the labels that it is given.

        Raises:
            ValueError: too few items of a class; of shuffled or another model's labels too.
        """
        parts = self.parts(cell.seed)
        train, validation = parts.train, parts.validation
        if cell.labels == "shuffled":
            seen = train.joined(validation)
            permuted = whole_group_permutations(seen.outcome, seen.groups, 1, cell.seed)[:, 0]
            train = train.relabeled(permuted[: len(train)])
            validation = validation.relabeled(permuted[len(train) :])
        if cell.labels == "peer":
            train, validation = (self._as_peer(part) for part in (train, validation))
            check_classes(train, "training items by the peer's labels")
        if cell.size > 1:
            assert self.made is not None
            wanted = (cell.size - 1) * (len(parts.train) + len(parts.validation))
            train = train.joined(self.made.take(np.arange(min(wanted, len(self.made)))))
        return train, validation

    def _as_peer(self, part: Labeled) -> Labeled:
        did = [self.peer.get(id) for id in part.ids]
        return labeled_of(part.task, part.items, did)

    def states(self, place: Place, ids: list[str]) -> Float[np.ndarray, "item d_model"]:
        """Activations of items in the task context at a site, layer and position."""
        site, layer, position = place
        cache_of = {id: cache for cache in self.caches for id in cache.ids}
        read: dict[str, np.ndarray] = {}
        for held in self.caches:
            own = [id for id in ids if cache_of[id] is held]
            if own:
                rows = held.read(site, layer=layer, position=position, ids=own)
                read |= dict(zip(own, rows, strict=True))
        return np.stack([read[id] for id in ids])

    def places(self) -> list[Place]:
        """What the probe may choose from."""
        probed = self.config.run_config().probed_spec()
        return [
            cell
            for cell in self.caches[0].cells()
            if cell[0] in probed.sites and cell[2] in probed.positions
        ]


Tests = Mapping[str, tuple[Material, Labeled]]
"""What is tested on, by the test's name: items, and the material that they are of."""


def held_out_of(material: Mapping[str, Material], task: str) -> dict[str, tuple[Material, Labeled]]:
    """Held-out groups and templates of a task, and the held-out groups of the next task; the same for every seed."""
    own = material[task]
    parts = own.parts(0)
    found = {"held_out_groups": (own, parts.test)}
    if parts.other_templates is not None:
        found["other_templates"] = (own, parts.other_templates)
    names = list(material)
    other = material[names[(names.index(task) + 1) % len(names)]]
    if other is not own:
        found["other_task"] = (other, other.parts(0).test)
    return found


@cache
def loaded(name: str, dtype: str) -> Model:
    """A model, held by this process."""
    return load_model(name, dtype=dtype)


def check_material(config: TeachConfig) -> None:
    """Refuse what could only fail later.

    Raises:
        ValueError: more items are wanted of a task that none can be made of, or more wordings than a task has.
    """
    for task in config.tasks:
        n_wordings = len(RUNNABLE[task].elicitations) // 2
        if config.wordings >= n_wordings:
            raise ValueError(
                f"wordings: task {task!r} has {n_wordings}, of which one is held out; give at most {n_wordings - 1}"
            )
        if max(config.sizes) > 1 and task not in BANKS:
            raise ValueError(
                f"sizes: no items can be made of task {task!r} (only of {', '.join(BANKS)}); give sizes: [1]"
            )


def collect(
    config: TeachConfig, out: Path, reporter: Reporter, load: Callable[[str, str], Model]
) -> None:
    """Let the model act on all items, read them and ask about them; what is there is picked up.

    Raises:
        ValueError: as a run; too few items of a class.
        RuntimeError: a stage failed at work.
    """
    folder, run = MaterialFolder(out), config.run_config()
    Experiment.from_config(run).collect(folder.run.path, reporter=reporter, load=load)
    if config.peer is not None and "peer" in config.all_controls:
        _ask_peer(config, folder, reporter, load(config.peer, config.dtype))
    for name in config.tasks:
        labeled = _labeled(RUNNABLE[name](), folder.run.items, folder.run.behavior)
        parts = split(labeled, seed=config.seed, held_out=config.held_out.get(name, "auto"))
        if max(config.sizes) > 1:
            n = (max(config.sizes) - 1) * (len(parts.train) + len(parts.validation))
            model = load(config.model, config.dtype)
            items = [item_from_row(row) for row in read_rows(folder.run.items)]
            made = synthesize(
                labeled.task,
                model,
                n,
                folder.made(name),
                exclude=[item for item in items if item.task == name],
                seed=config.seed,
                reporter=reporter,
            )
            capture_into(
                folder.made_cache(name),
                model,
                [item.prompt() for item in made.labeled.items],
                run.task_spec(),
                reporter=reporter,
                stage=f"{name}: activations of made items",
            )


def open_material(config: TeachConfig, out: Path) -> dict[str, Material]:
    """Every task's material, from a folder in which all is collected."""
    folder = MaterialFolder(out)
    of_run = ActivationsCache.open(folder.run.task_cache)
    found = {}
    for name in config.tasks:
        task = RUNNABLE[name]()
        made, caches = None, [of_run]
        if max(config.sizes) > 1:
            at = folder.made(name)
            made = _labeled(task, at / "items.jsonl", at / "behavior.jsonl")
            caches.append(ActivationsCache.open(folder.made_cache(name)))
        peer = read_rows(folder.peer(name)) if folder.peer(name).is_file() else []
        found[name] = Material(
            labeled=_labeled(task, folder.run.items, folder.run.behavior),
            made=made,
            peer={row["item"]: row["outcome"] for row in peer if row["outcome"] is not None},
            caches=tuple(caches),
            config=config,
        )
    return found


def _ask_peer(config: TeachConfig, folder: MaterialFolder, reporter: Reporter, peer: Model) -> None:
    items = [item_from_row(row) for row in read_rows(folder.run.items)]
    for name in config.tasks:
        path, task = folder.peer(name), RUNNABLE[name]()
        if path.is_file():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        store = path.with_suffix(".partial.jsonl")
        run = LocalRunner(
            peer,
            samples=task.min_samples,
            seed=config.seed,
            store=store,
            reporter=reporter,
            stage=f"{name}: peer's behavior",
        )
        rows = label_behavior(run, task, [item for item in items if item.task == name])
        write_rows(path, (row.to_json() for row in rows))
        store.unlink(missing_ok=True)


def _labeled(task: Task, items: Path, behavior: Path) -> Labeled:
    own: list[Item] = [item_from_row(row) for row in read_rows(items)]
    did = {row["item"]: Behavior.from_row(row).outcome for row in read_rows(behavior)}
    kept = [item for item in own if item.task == task.name]
    return labeled_of(task, kept, [did[item.id] for item in kept])
