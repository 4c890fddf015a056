"""The training loop: what it finds, what it keeps, what it refuses, and that a kill changes nothing."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.records import read_rows
from experiments.self_prediction import checkpoints
from experiments.self_prediction.checkpoints import read_checkpoint
from experiments.self_prediction.schedule import examples_of_step
from experiments.self_prediction.training import CHECKPOINT, Trained, TrainSettings, train
from tests.experiments.self_prediction.slopes import TRUTH, N, Slopes

SETTINGS = TrainSettings(steps=40, learning_rate=0.3, evaluate_every=4, checkpoint_every=5)


class Killed(BaseException):
    """Ends a training as a kill does: nothing after it is done."""


def killed_at(folder: Path, step: int, settings: TrainSettings = SETTINGS, **about: Any) -> None:
    def kill(now: int, part: int) -> None:
        if now == step:
            raise Killed

    with pytest.raises(Killed):
        train(Slopes(before_micro_batch=kill), settings, folder, about=about)


def values(objective: Slopes) -> list[float]:
    return [*objective.weight.tolist(), *objective.bias.tolist()]


def without_times(trained: Trained) -> Trained:
    return replace(trained, seconds=0.0, seconds_per_step=0.0)


def test_it_finds_the_answer_and_says_how_it_went(tmp_path: Path) -> None:
    objective = Slopes()
    trained = train(objective, SETTINGS, tmp_path)
    torch.testing.assert_close(objective.weight.detach(), TRUTH, atol=0.15, rtol=0)
    assert trained.steps == 40
    assert not trained.stopped_early
    assert trained.peak_memory is None
    assert trained.seconds > trained.seconds_per_step * 40 > 0
    rows = read_rows(tmp_path / "metrics.jsonl")
    validations = {row["step"]: row["validation_loss"] for row in rows if "validation_loss" in row}
    assert list(validations) == list(range(0, 41, 4))
    assert trained.best_loss == pytest.approx(min(validations.values()), abs=1e-6)
    assert validations[trained.best_step] == min(validations.values())
    steps = [row for row in rows if "loss" in row]
    assert [row["step"] for row in steps] == list(range(1, 41))
    assert [row["step_seen"] for row in steps] == list(range(40))
    rates = [row["learning_rate"] for row in steps]
    assert max(rates) == rates[3] == 0.3
    assert rates[:4] == pytest.approx([0.075, 0.15, 0.225, 0.3])
    assert rates[-1] == pytest.approx(0.3 / 36, abs=1e-6)
    assert all(row["gradient_norm"] > 0 and row["seconds"] >= 0 for row in steps)


def test_steps_are_those_of_adamw_with_clipped_gradients() -> None:
    objective, by_hand = Slopes(), Slopes()
    settings = TrainSettings(steps=10, learning_rate=0.1, weight_decay=0.2, evaluate_every=10)
    train(objective, settings)
    optimizer = torch.optim.AdamW(
        by_hand.parameters.values(), lr=0.1, betas=(0.9, 0.98), weight_decay=0.2
    )
    for step in range(10):
        optimizer.param_groups[0]["lr"] = 0.1 * (1.0 if step == 0 else (10 - step) / 9)
        optimizer.zero_grad()
        next(by_hand.losses(step)).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(by_hand.parameters.values()), 1.0)
        optimizer.step()
    assert values(objective) == pytest.approx(values(by_hand), abs=1e-6)
    assert abs(values(by_hand)[0]) > 0.1


def test_accumulated_micro_batches_are_one_large_batch() -> None:
    whole, divided = Slopes(), Slopes(accumulate=5)
    train(whole, SETTINGS)
    train(divided, SETTINGS)
    assert values(divided) == pytest.approx(values(whole), abs=1e-4)


def test_an_epoch_holds_every_example_once_in_an_order_of_its_own() -> None:
    steps = [examples_of_step(step, 7, 20, seed=1) for step in range(20)]
    seen = np.concatenate(steps)
    epochs = seen.reshape(7, 20)
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 7
    assert examples_of_step(13, 7, 20, seed=1).tolist() == steps[13].tolist()
    assert examples_of_step(0, 7, 20, seed=2).tolist() != steps[0].tolist()
    assert examples_of_step(0, 45, 20, seed=1).tolist() == seen[:45].tolist()


def test_it_stops_when_patience_runs_out_and_the_best_parameters_are_in_place(
    tmp_path: Path,
) -> None:
    overshooting = replace(SETTINGS, steps=400, learning_rate=3.0, patience=3)
    objective = Slopes()
    trained = train(objective, overshooting, tmp_path)
    assert trained.stopped_early
    assert trained.steps == trained.best_step + 3 * 4 < 400
    with torch.no_grad():
        assert objective.validate() == trained.best_loss
    rows = read_rows(tmp_path / "metrics.jsonl")
    last = [row["validation_loss"] for row in rows if "validation_loss" in row][-3:]
    assert min(last) >= trained.best_loss


def test_training_that_makes_it_worse_is_undone() -> None:
    objective = Slopes(noise=0.0)
    with torch.no_grad():
        objective.weight.copy_(TRUTH)
    trained = train(objective, replace(SETTINGS, weight_decay=0.5))
    assert trained.best_step == 0
    assert objective.weight.tolist() == TRUTH.tolist()


@pytest.mark.parametrize("step", [0, 3, 5, 17, 38])
def test_a_training_that_ended_in_the_middle_goes_on_to_the_same_bits(
    step: int, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, learning_rate=0.1, patience=5)
    whole, resumed = Slopes(), Slopes()
    expected = train(whole, settings, tmp_path / "whole")
    killed_at(tmp_path / "killed", step, settings)
    kept = read_checkpoint(tmp_path / "killed" / CHECKPOINT)
    assert (kept is None) == (step < 5)
    assert kept is None or kept.about["state"]["step"] == step // 5 * 5
    trained = train(resumed, settings, tmp_path / "killed")
    assert without_times(trained) == without_times(expected)
    assert values(resumed) == values(whole)

    def logged(folder: str) -> list[dict[str, Any]]:
        return [
            {name: value for name, value in row.items() if name != "seconds"}
            for row in read_rows(tmp_path / folder / "metrics.jsonl")
        ]

    assert logged("killed") == logged("whole")


def test_really_killed_at_random_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    script = [sys.executable, "-m", "tests.experiments.self_prediction.kill_training"]
    run = subprocess.run([*script, str(tmp_path), "4"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["killed"] == 4
    assert max(told["picked_up"]) > 0
    one, other = ((tmp_path / name / "adapters.safetensors") for name in ("whole", "killed"))
    assert one.read_bytes() == other.read_bytes()


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    first, second = Slopes(), Slopes()
    trained = train(first, SETTINGS, tmp_path)
    kept = read_checkpoint(tmp_path / CHECKPOINT)
    assert kept is not None
    assert {name.partition("/")[0] for name in kept.tensors} == {"best"}
    assert train(second, SETTINGS, tmp_path) == trained
    assert values(second) == values(first)
    assert second.n_validations == 0


@pytest.mark.parametrize(
    ("changed", "about", "message"),
    [
        ({"learning_rate": 0.2}, {"task": "refusal"}, r"learning_rate: is 0\.2, but .* with 0\.3"),
        ({"steps": 41}, {"task": "refusal"}, "steps: is 41, but .* with 40"),
        ({}, {"task": "difficulty"}, r"about\.task: is 'difficulty', but .* with 'refusal'"),
        ({}, {}, r"about\.task: is none, but .* with 'refusal'"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused_in_one_line(
    changed: dict[str, Any], about: dict[str, Any], message: str, tmp_path: Path
) -> None:
    killed_at(tmp_path, 11, task="refusal")
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(ValueError, match=message) as error:
        train(Slopes(), replace(SETTINGS, **changed), tmp_path, about=about)
    assert "\n" not in str(error.value)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    train(Slopes(), replace(SETTINGS, checkpoint_every=7), tmp_path, about={"task": "refusal"})


def test_other_parameters_are_another_training(tmp_path: Path) -> None:
    killed_at(tmp_path, 11)
    objective = Slopes()
    objective.bias = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(ValueError, match=r"parameters\.bias: is \[\[2\], 'torch\.float32'\]"):
        train(objective, SETTINGS, tmp_path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"cut"])
def test_a_damaged_checkpoint_is_named(content: bytes, tmp_path: Path) -> None:
    killed_at(tmp_path, 11)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-3] if content == b"cut" else content)
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors is damaged or none") as error:
        train(Slopes(), SETTINGS, tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_it_with_the_step_and_without_a_trace_in_the_weights(
    bad: float, tmp_path: Path
) -> None:
    objective = Slopes()

    def spoil(step: int, part: int) -> None:
        if step == 6:
            objective._y[:N] = bad

    objective._before = spoil
    with pytest.raises(RuntimeError, match=rf"at step 7 the loss is {bad}; lower learning_rate"):
        train(objective, SETTINGS, tmp_path)
    assert all(np.isfinite(values(objective)))
    kept = read_checkpoint(tmp_path / CHECKPOINT)
    assert kept is not None
    assert kept.about["state"]["step"] == 5


def test_a_gradient_that_is_no_number_stops_it_too(tmp_path: Path) -> None:
    objective = Slopes()
    objective.weight.register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(RuntimeError, match="at step 1 the norm of the gradient is nan"):
        train(objective, SETTINGS, tmp_path)
    assert values(objective) == [0.0] * 4


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory"),
    ],
)
def test_too_little_memory_names_the_knobs(error: Exception, tmp_path: Path) -> None:
    def allocate(step: int, part: int) -> None:
        if step == 2:
            raise error

    with pytest.raises(RuntimeError, match=r"step 3 does not fit .* raise accumulate, lower batch"):
        train(Slopes(before_micro_batch=allocate), SETTINGS, tmp_path)


def test_other_errors_are_left_as_they_are() -> None:
    def fail(step: int, part: int) -> None:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match=r"^something else$"):
        train(Slopes(before_micro_batch=fail), SETTINGS)


def test_a_full_disk_loses_no_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, resumed = Slopes(), Slopes()
    train(whole, SETTINGS)
    killed_at(tmp_path, 11)
    before = (tmp_path / CHECKPOINT).read_bytes()

    def full(path: Path, *data: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "replace_file", full)
        with pytest.raises(OSError, match=r"No space left on device.* the last one is kept; make"):
            train(Slopes(), SETTINGS, tmp_path)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    train(resumed, SETTINGS, tmp_path)
    assert values(resumed) == values(whole)


def test_a_folder_that_cannot_be_made_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    objective = Slopes()
    with pytest.raises(ValueError, match="folder: cannot make the folder"):
        train(objective, SETTINGS, tmp_path / "file")
    assert objective.n_validations == 0


def test_products_are_in_bfloat16_where_that_is_asked(tmp_path: Path) -> None:
    seen: list[torch.dtype] = []
    objective = Slopes(
        before_micro_batch=lambda step, part: seen.append((torch.ones(2, 2) @ torch.ones(2)).dtype)
    )
    train(objective, replace(SETTINGS, precision="bfloat16"), tmp_path)
    assert set(seen) == {torch.bfloat16}
    assert objective.weight.dtype == torch.float32
    torch.testing.assert_close(objective.weight.detach(), TRUTH, atol=0.2, rtol=0)


def test_tensorboard_gets_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[tuple[str, float, int]] = []

    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            assert (folder, purge_step) == (str(tmp_path / "tensorboard"), 1)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            added.append((name, value, step))

        def flush(self) -> None:
            pass

    module = type(sys)("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    train(Slopes(), SETTINGS, tmp_path, tensorboard=True)
    rows = read_rows(tmp_path / "metrics.jsonl")
    told = [
        (name, value, row["step"]) for row in rows for name, value in row.items() if name != "step"
    ]
    assert [(name, step) for name, _, step in added] == [(name, step) for name, _, step in told]
    assert [value for _, value, _ in added] == pytest.approx(
        [value for _, value, _ in told], abs=1e-6
    )


def test_tensorboard_that_is_not_there_is_named_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    objective = Slopes()
    with pytest.raises(ValueError, match=r"pip install 'selfprobe\[tensorboard\]'"):
        train(objective, SETTINGS, tmp_path, tensorboard=True)
    with pytest.raises(ValueError, match="tensorboard: there is no folder"):
        train(objective, SETTINGS, tensorboard=True)
    assert objective.n_validations == 0


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("steps", 0),
        ("evaluate_every", 0),
        ("patience", 0),
        ("checkpoint_every", -1),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("weight_decay", -0.1),
        ("precision", "float16"),
    ],
)
def test_settings_out_of_range_are_refused(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{setting}: "):
        replace(SETTINGS, **{setting: value})
