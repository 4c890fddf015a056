"""Kills captures with SIGKILL at random moments: `python -m tests.experiments.kill_captures FOLDER N`.

Leaves FOLDER/whole, which was captured at one go, and FOLDER/killed, which was killed again and again.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from activations_cache import ActivationsCache
from experiments.captures import capture_into
from hooks import CaptureSpec, Model, Prompt, load_model, plan_capture

PROMPTS = [
    Prompt.chat(f"p{n:02d}", "Tell me of the sea. " * (1 + n % 5) + str(n)) for n in range(72)
]
SPEC = CaptureSpec(layers=(0, 15, 29), positions=("instruction_last", "prompt_last"))
BATCH_TOKENS = 160


def capture_in_small_shards(model: Model, folder: Path) -> None:
    """Small batches and shards, so that a kill may fall anywhere."""
    if not ActivationsCache.exists(folder):
        plan = plan_capture(model, PROMPTS, SPEC, batch_tokens=BATCH_TOKENS)
        ActivationsCache.create(
            folder,
            fingerprint={**model.fingerprint, **plan.fingerprint},
            spec=plan.spec,
            plan=plan.batches,
            shard_rows=6,
        ).close()
    capture_into(folder, model, PROMPTS, SPEC, batch_tokens=BATCH_TOKENS)


def kill_often(work: Callable[[], None], folder: Path, n_kills: int) -> int:
    """Fork, let the child work, kill it; a capture that was done too soon is begun anew."""
    generator = random.Random(0)
    killed = 0
    while killed < n_kills:
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        time.sleep(generator.uniform(0.02, 1.0))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
        else:
            assert status == 0
            shutil.rmtree(folder)
    return killed


def main() -> None:
    folder, n_kills = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    model = load_model("smollm2-135m", device="cpu")
    killed = kill_often(
        lambda: capture_in_small_shards(model, folder / "killed"), folder / "killed", n_kills
    )
    capture_in_small_shards(model, folder / "killed")
    capture_in_small_shards(model, folder / "whole")
    print(f"{killed} kills")


if __name__ == "__main__":
    main()
