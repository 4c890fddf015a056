"""`selfprobe bench behavior`: answers written as far as their labels need, against transformers' `generate`.

Both write k samples of every prompt at temperature 1, in batches of one size, in one dtype, with the same draws: as far
as both go they write the same tokens. The rival reads a prompt k times and writes until the budget is spent or all of a
batch have ended, as `generate` does. Selfprobe reads a prompt once, and lets an answer go when it has ended or its
label is decided.

Labels are those that a task gives the opening of an answer. How many of the rival's whole answers are labeled like
their openings is reported beside them: what the opening does not tell is the price of the time saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import eq
from statistics import mean, median

import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.behavior.decided import opening, opening_over
from experiments.bench.timing import Turns, median_ratio, seconds_in_turns
from experiments.progress import Advance
from experiments.tasks import TASKS, CompletionTask, Item
from experiments.tasks.answers import AnswerFound
from hooks import Completion, Model, generate
from hooks.batching import padded_batch
from hooks.completions import Ending, stop_tokens
from hooks.plan import render_all
from hooks.sampling import Sampling, row_seed

ROUNDS = 5
SAMPLES = 8
PROMPTS = 4
"""Of a round: with their samples they make one batch."""

BATCH_SIZE = PROMPTS * SAMPLES
MAX_NEW_TOKENS = 64
WRITERS = ("transformers", "selfprobe")


def _answer_decided(item: Item) -> Callable[[str], bool]:
    found = AnswerFound(item.text, item.answers, tuple(item.meta["choices"]))
    return lambda text: opening_over(text) or found(text)


DECIDED: Mapping[str, Callable[[Item], Callable[[str], bool]]] = {
    "refusal": lambda _: opening_over,
    "difficulty": _answer_decided,
}
"""By task, what tells of an item's answer so far that the label of its opening cannot change."""


@dataclass(frozen=True)
class TaskBench:
    """What one task took; times are medians over rounds, each of them on fresh prompts.

    Attributes:
        task: its name.
        speedup: the time of transformers over that of selfprobe.
        seconds: of a round, by writer.
        tokens: that an answer has, on average, by writer.
        n_completions: in all rounds, of each writer.
        n_same_label: those that get the same label from what each of them wrote.
        n_same_text: those in which transformers' text begins with selfprobe's.
        n_like_whole: those of transformers whose opening is labeled like all of it.
        rounds: the seconds of every round.
    """

    task: str
    speedup: float
    seconds: dict[str, float]
    tokens: dict[str, float]
    n_completions: int
    n_same_label: int
    n_same_text: int
    n_like_whole: int
    rounds: list[dict[str, float]]


@dataclass(frozen=True)
class BehaviorBench:
    """All tasks, and what they ran with.

    Attributes:
        tasks: one by one.
        n_samples, batch_size, max_new_tokens, dtype, device, threads: what was run.
    """

    tasks: list[TaskBench]
    n_samples: int
    batch_size: int
    max_new_tokens: int
    dtype: str
    device: str
    threads: int

    def to_dict(self) -> dict[str, object]:
        """Everything, JSON-able."""
        return asdict(self)

    def lines(self) -> list[str]:
        """A table for a person."""
        found = [
            f"{self.n_samples} samples a prompt, batches of {self.batch_size}, {self.max_new_tokens} tokens at most, "
            f"{self.dtype} on {self.device}, {self.threads} threads",
            "medians of paired rounds, fresh prompts in each",
        ]
        for task in self.tasks:
            found += [
                "",
                task.task,
                *(
                    f"  {writer:<36}{task.seconds[writer]:6.1f} s a round, {task.tokens[writer]:4.1f} tokens an answer"
                    for writer in WRITERS
                ),
                f"  {'speedup':<36}{task.speedup:6.2f}",
                f"  {'same label':<36}{task.n_same_label:4d} of {task.n_completions}",
                f"  {'same text as far as it goes':<36}{task.n_same_text:4d} of {task.n_completions}",
                f"  {'opening labeled like whole answer':<36}{task.n_like_whole:4d} of {task.n_completions}",
            ]
        if not self.device.startswith("cuda"):
            found += ["", f"{'on a GPU':<38}not measured: none here"]
        return found


def bench_behavior(model: Model, *, rounds: int = ROUNDS, advance: Advance) -> BehaviorBench:
    """Measure; `advance` is told of every round of each task.

    Raises:
        ValueError: more rounds than there are items for.
    """
    return BehaviorBench(
        tasks=[_bench_task(model, name, rounds, advance) for name in DECIDED],
        n_samples=SAMPLES,
        batch_size=BATCH_SIZE,
        max_new_tokens=MAX_NEW_TOKENS,
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        threads=torch.get_num_threads(),
    )


def _bench_task(model: Model, name: str, rounds: int, advance: Advance) -> TaskBench:
    task = TASKS[name]()
    assert isinstance(task, CompletionTask)
    chosen = _spread(task.items(), rounds * PROMPTS)
    written: dict[str, list[Completion]] = {writer: [] for writer in WRITERS}

    def turns(items: Sequence[Item]) -> Turns:
        return {
            "transformers": [lambda: written["transformers"].extend(_transformers(model, items))],
            "selfprobe": [lambda: written["selfprobe"].extend(_selfprobe(model, name, items))],
        }

    seconds_in_turns([turns(chosen[:1])])  # warms up
    for completions in written.values():
        completions.clear()
    seconds = []
    for start in range(rounds):
        seconds += seconds_in_turns([turns(chosen[start::rounds])])
        advance(1)
    texts = {writer: [one.text for one in own] for writer, own in written.items()}
    by_id = {item.id: item for item in chosen}
    items = [by_id[one.id] for one in written["selfprobe"]]

    def labels(answers: Sequence[str]) -> list[str]:
        return [judgment.label for judgment in task.judge(items, answers)]

    whole = labels(texts["transformers"])
    openings, ours = (labels([opening(text) for text in texts[writer]]) for writer in WRITERS)
    return TaskBench(
        task=name,
        speedup=median_ratio(seconds, *WRITERS),
        seconds={writer: median(one[writer] for one in seconds) for writer in WRITERS},
        tokens={writer: mean(one.n_tokens for one in own) for writer, own in written.items()},
        n_completions=len(items),
        n_same_label=sum(map(eq, openings, ours)),
        n_same_text=sum(map(str.startswith, texts["transformers"], texts["selfprobe"])),
        n_like_whole=sum(map(eq, openings, whole)),
        rounds=seconds,
    )


def _spread(items: Sequence[Item], n: int) -> Sequence[Item]:
    """Take items from all over the list: neighbors share their first words, which selfprobe reads once."""
    if n > len(items):
        raise ValueError(
            f"rounds: {n} items are needed, but there are {len(items)}; give fewer rounds"
        )
    return items[:: len(items) // n][:n]


def _selfprobe(model: Model, name: str, items: Sequence[Item]) -> list[Completion]:
    return generate(
        model,
        [item.prompt() for item in items],
        max_new_tokens=MAX_NEW_TOKENS,
        n_samples=SAMPLES,
        temperature=1.0,
        batch_size=BATCH_SIZE,
        decided=[DECIDED[name](item) for item in items],
    )


def _transformers(model: Model, items: Sequence[Item]) -> list[Completion]:
    """What its documentation shows for a batch of prompts, each of them there once a sample."""
    from transformers import GenerationConfig, LogitsProcessorList

    prompts = render_all(model, [item.prompt() for item in items], MAX_NEW_TOKENS)
    rows = [(prompt, sample) for prompt in prompts for sample in range(SAMPLES)]
    batch = padded_batch([prompt for prompt, _ in rows], model.pad_id, side="left")
    stops = stop_tokens(model)
    sampling = Sampling(
        [row_seed(0, prompt.id, sample) for prompt, sample in rows], 1.0, model.device
    )
    with torch.inference_mode():
        output = model.module.generate(
            input_ids=batch.token_ids.to(model.device),
            attention_mask=batch.attention_mask(model.dtype).to(model.device),
            generation_config=GenerationConfig(
                max_new_tokens=MAX_NEW_TOKENS,
                do_sample=False,
                eos_token_id=list(stops),
                pad_token_id=model.pad_id,
            ),
            logits_processor=LogitsProcessorList([_Drawn(sampling)]),
        )
    width = batch.token_ids.shape[1]
    ending = Ending(model.tokenizer, stops)
    return [
        ending.completion(prompt.id, sample, tokens)
        for (prompt, sample), tokens in zip(rows, output[:, width:].tolist(), strict=True)
    ]


class _Drawn:
    """The draws that selfprobe makes, as transformers takes them: of a step's scores only the drawn token's is left."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling

    def __call__(
        self, input_ids: Int[Tensor, "row token"], scores: Float[Tensor, "row vocabulary"]
    ) -> Float[Tensor, "row vocabulary"]:
        drawn = self._sampling(scores)
        return torch.full_like(scores, -torch.inf).scatter_(1, drawn[:, None], 0.0)
