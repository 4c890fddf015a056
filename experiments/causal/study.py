"""`selfprobe causal`: the interventions on a finished run, task by task, from its folder to `causal.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from filelock import Timeout

from experiments.causal.directions import FITTED, fit_directions
from experiments.causal.dissociation import dissociation
from experiments.causal.figures import write_causal_figures
from experiments.causal.guards import guards_from, measure_guards
from experiments.causal.guards import n_steps as guard_steps
from experiments.causal.measured import Movements
from experiments.causal.patching import POSITIONS, choose_donors, patch_all
from experiments.causal.readouts import choose_items, order_of, readouts_of
from experiments.causal.settings import CausalSettings
from experiments.causal.shift import N_STEPS as SHIFT_STEPS
from experiments.causal.shift import shift_test
from experiments.causal.store import Store
from experiments.causal.subject import Subject
from experiments.causal.sweep import sweep
from experiments.causal_record import SCHEMA, UNREAD
from experiments.claims import why_skipped
from experiments.finished import Run
from experiments.progress import Reporter, Silent
from experiments.records import write_json
from experiments.run_folder import RunFolder, versions
from experiments.runnable import RUNNABLE
from hooks import Model, load_model
from hooks.intervention import ZERO_WARNING

_NEEDED = ("items", "behavior", "task activations")
"""Stages of the run whose records are read."""
N_PATCHED = 24
N_SHIFTED = 20
"""Measured items that are patched, and whose behavior is changed and generated anew."""


def causal(
    run: Run,
    task: str | None = None,
    settings: CausalSettings | None = None,
    *,
    reporter: Reporter | None = None,
    model: Model | None = None,
) -> dict[str, Any]:
    """Intervene on the model of a finished run, and write `causal.json` and its figures into the folder.

    What the folder holds with the same settings is read back; an interrupted call is picked up.

    Args:
        run: from `load_run`.
        task: one of the run's; None is every task that was not skipped.
        settings: `CausalSettings()` by default.
        reporter: shows how far it is.
        model: the run's model, if it is loaded already.

    Returns:
        `causal.json`: `tasks` by name.

    Raises:
        ValueError: a run without activations, a task that was skipped, another model, a layer that is not there, or
            another process at work in the folder; nothing is measured then.
    """
    settings, reporter = settings or CausalSettings(), reporter or Silent()
    folder = run.folder
    names = _tasks(run, task)
    with _at_work(folder):
        held = run.interventions
        todo = [name for name in names if not _is_same(held.get(name, {}), run, name, settings)]
        subjects: dict[str, Subject] = {}
        if todo:
            run.require(*(part for stage in _NEEDED for part in folder.outputs[stage]))
            model = model or load_model(run.config.model, dtype=run.config.dtype)
            _check_model(model, folder)
            # Every subject is read before the first is measured: what is wrong is then said at once.
            subjects = {
                name: Subject.read(
                    RUNNABLE[name](), folder, run.result(name)["probe"], model, settings
                )
                for name in todo
            }
        for name in names:
            if name in subjects:
                subject = subjects[name]
                store = _store(subject, folder, settings)
                found = _study(subject, folder, settings, store, reporter)
                held[name] = found | {"probe": _selected(run.result(name)["probe"])}
                write_json(folder.causal, _document(run, held))
                store.close()
            # Those that were measured before as well: they may have been deleted, or drawn by another version.
            write_causal_figures({name: held[name]}, folder.figures)
    return _document(run, held)


def _store(subject: Subject, folder: RunFolder, settings: CausalSettings) -> Store:
    """Where parts of a task are kept until the whole is written: a file a task, which no other's end takes away."""
    about = {
        "schema": SCHEMA,
        "task": subject.task.name,
        "settings": settings.to_json(),
        "place": asdict(subject.place),
        "alpha": subject.alpha,
        "outcomes": [
            [item.id, int(outcome)]
            for item, outcome in zip(subject.items, subject.outcome, strict=True)
        ],
        "model": subject.model.fingerprint,
        "versions": versions(),
    }
    return Store(folder.path / f"causal.partial-{subject.task.name}.jsonl", about)


def _study(
    subject: Subject,
    folder: RunFolder,
    settings: CausalSettings,
    store: Store,
    reporter: Reporter,
) -> dict[str, Any]:
    name, place = subject.task.name, subject.place
    directions = fit_directions(subject, settings)
    chosen = choose_items(subject, directions.half_of, settings.n_items, settings.seed)
    n_null_items = min(settings.n_null_items, len(chosen))
    readouts = readouts_of(subject, chosen, folder)
    with reporter.stage(f"{name}: guards", guard_steps()) as advance:
        measured = store.get("guards", lambda: measure_guards(subject, directions, advance))
    guards = guards_from(measured, settings)
    dose = guards.test_dose
    n_slots = sum(map(len, readouts.slots.values()))
    with reporter.stage(f"{name}: steering and ablation", n_slots) as advance:
        swept = sweep(subject, directions, readouts, chosen, n_null_items, dose, store, advance)
    outcome, groups = subject.outcome[chosen], subject.groups[chosen]
    movements = Movements(swept, directions, outcome, groups)
    donors = choose_donors(outcome, groups, order_of(len(chosen)), N_PATCHED, settings.seed)
    n_patched = len(donors.recipients) * len(POSITIONS.keys() & readouts.slots.keys())
    with reporter.stage(f"{name}: patching", n_patched) as advance:
        patched = patch_all(subject, swept, readouts, donors, store, advance)
    with reporter.stage(f"{name}: shift test", SHIFT_STEPS) as advance:
        shift = shift_test(subject, directions, swept, readouts, N_SHIFTED, dose, store, advance)
    found = {
        "place": {
            "site": place.site,
            "layer": place.layer,
            "position": place.position,
            "changed": list(place.tail_of(subject.model, subject.items[0].prompt())),
        },
        "readouts": {"behavior": readouts.behavior},
        "skipped": dict(readouts.skipped),
        "n_items": len(chosen),
        "n_null_items": n_null_items,
        "settings": settings.to_json(),
        "guards": guards.to_json(),
        "steering": movements.steering_json(guards),
        "ablation": movements.ablation_json(ZERO_WARNING),
        "patching": patched,
        "dissociation": dissociation(movements, guards.passed, settings.seed),
        "shift": shift,
    }
    return found | {"notes": _notes(found, movements)}


def _notes(found: Mapping[str, Any], movements: Movements) -> list[str]:
    guards = found["guards"]
    notes = [
        f"Directions are added at {', '.join(found['place']['changed'])} of every prompt, after layer "
        f"{found['place']['layer']}; {FITTED[0]} is the one that verdicts are about.",
        f"{found['n_items']} items along the directions, {found['n_null_items']} of them along the nulls.",
    ]
    if not guards["passed"]:
        notes.append("Even the smallest dose is beyond the guards: nothing here is interpreted.")
    if "behavior" in movements.readouts and not movements.reads_behavior:
        gap = found["ablation"]["behavior"]["gap_before"]
        notes.append(
            f"behavior: {UNREAD} ({gap['estimate']:+.2f} nats [{gap['ci'][0]:+.2f}, {gap['ci'][1]:+.2f}] between the "
            "outcomes): its numbers are shown, and not interpreted."
        )
    notes += [f"{name}: not measured: {why}." for name, why in found["skipped"].items()]
    return notes


def _tasks(run: Run, task: str | None) -> list[str]:
    """The tasks to intervene on."""
    if run.config.endpoint is not None:
        raise ValueError(
            f"{run.path} is a run on an endpoint, which has no activations to change; "
            "make a run on the model itself"
        )
    if task is not None:
        result = run.result(task)
        if result["skipped"]:
            raise ValueError(f"task: {task!r} {why_skipped(result)}")
        return [task]
    tasks = run.results["tasks"]
    names = [name for name, result in tasks.items() if not result["skipped"]]
    if not names:
        reasons = "; ".join(f"{name}: {result['skipped']}" for name, result in tasks.items())
        raise ValueError(f"task: every task of this run was skipped ({reasons})")
    return names


def _check_model(model: Model, folder: RunFolder) -> None:
    """Refuse a model whose states are not those that the probes were fitted on."""
    held, now = folder.read_manifest().get("model", {}), model.fingerprint
    for name in ("weights", "config", "tokenizer", "dtype"):
        if name not in held:
            raise ValueError(
                f"model: {folder.manifest} does not say the {name} of the run's model (it is damaged, or of an older "
                "version); make a new run"
            )
        if held[name] != now[name]:
            raise ValueError(
                f"model: the {name} of {model.name} differ from those of the run in {folder.path}; "
                "load the same model, or make a new run"
            )


def _is_same(held: Mapping[str, Any], run: Run, task: str, settings: CausalSettings) -> bool:
    """Whether what is held of a task was asked for in the same way, of the same probe."""
    probe = _selected(run.result(task)["probe"])
    return held.get("settings") == settings.to_json() and held.get("probe") == probe


def _selected(probe: Mapping[str, Any]) -> dict[str, Any]:
    return {name: probe[name] for name in ("site", "layer", "position", "alpha")}


def _document(run: Run, tasks: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "model": run.config.model,
        "created_with": versions(),
        "fingerprint": run.folder.read_manifest().get("model"),
        "tasks": dict(tasks),
    }


@contextmanager
def _at_work(folder: RunFolder) -> Iterator[None]:
    """This process alone at work in a run's folder."""
    try:
        folder.lock.acquire()
    except Timeout:
        raise ValueError(f"another process is at work in {folder.path}; wait for it") from None
    except OSError as error:
        raise ValueError(
            f"cannot write to {folder.path} ({error.strerror}), where interventions are kept; copy the run to a folder "
            "of your own"
        ) from None
    try:
        yield
    finally:
        folder.lock.release()
