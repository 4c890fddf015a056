"""What an attached head adds to the time of a prefill: `python -m benchmarks.head_overhead --turns 12`.

One process reads the same prompts again and again, in turns: alone, and with a head attached. Which comes first changes
from turn to turn, so that whatever slows the machine down meets both alike; the ratio is taken within a turn. The last
column compares the model alone with itself: what the method finds where there is nothing to find.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from benchmarks.simulations import print_header, print_row
from experiments.self_prediction.heads import SelfPredictionHead, Shape, Target
from experiments.self_prediction.place import Place
from hooks import Model, Prompt, generate, load_model, option_logprobs, render

TARGETS = (Target("refuses"), Target("tokens", "number"))
SENTENCE = "Please write a short poem about the sea and the wind, and do not rhyme. "
SHAPES = {"linear": Shape(), "mlp": Shape("mlp", hidden=64)}
Block = Callable[[], AbstractContextManager[Any]]


def _prompts(n: int, repeats: int) -> list[Prompt]:
    """Prompts that share no beginning."""
    return [Prompt.chat(f"p{i}", f"{i} times: {SENTENCE * repeats}") for i in range(n)]


def ratios(read: Callable[[], object], block: Block, turns: int) -> Float[np.ndarray, " turn"]:
    """Seconds inside the block over seconds outside it, turn by turn."""

    def seconds(around: Block) -> float:
        # Entering checks fingerprints, once for however many prompts: no part of reading them.
        with around():
            start = time.perf_counter()
            read()
            return time.perf_counter() - start

    found = []
    for turn in range(-2, turns):
        if turn % 2:
            with_block, without = seconds(block), seconds(nullcontext)
        else:
            without, with_block = seconds(nullcontext), seconds(block)
        if turn >= 0:
            found.append(with_block / without)
    return np.array(found)


def shown(found: Float[np.ndarray, " turn"]) -> str:
    """The median, and its 95% bootstrap interval."""
    drawn = np.random.default_rng(0).choice(found, (2000, len(found)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return f"{np.median(found) - 1:+.2%} ({low - 1:+.2%} to {high - 1:+.2%})"


def _ways(model: Model, prompts: list[Prompt]) -> dict[str, Callable[[], object]]:
    """What reads prompts and does little else."""
    return {
        "generate one token": lambda: generate(model, prompts, max_new_tokens=1),
        "log-probabilities of two answers": lambda: option_logprobs(
            model, prompts, {"yes": ["yes"], "no": ["no"]}
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--turns", type=int, default=12, help="of each row")
    asked = parser.parse_args()
    model = load_model(asked.model)
    place = Place("resid_post", model.n_layers // 2, "prompt_last")
    print_header(["prompts", "read by", "head", "added by it", "alone against itself"])
    for n, repeats in ((1, 3), (8, 3), (1, 12)):
        prompts = _prompts(n, repeats)
        for name, read in _ways(model, prompts).items():
            nothing = ratios(read, nullcontext, asked.turns)
            for kind, shape in SHAPES.items():
                head = SelfPredictionHead.of(model, TARGETS, place, shape)
                added = ratios(read, partial(head.attach, model), asked.turns)
                size = f"{n} of {len(render(model, prompts[0]))} tokens"
                print_row([size, name, kind, shown(added), shown(nothing)])


if __name__ == "__main__":
    main()
