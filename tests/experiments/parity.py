"""A task that a tiny random model can be run on: is the checksum of its answer odd?

Run as a script it is the command line with this task registered: `python parity.py run parity ...`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

from experiments.tasks import TASKS, CompletionTask, Elicitation, Event, Item, Judgment

WORDS = ("sea", "wind", "poem", "capital", "France", "Paris", "short", "answer", "word", "request")


def elicitation(paraphrase: str, order: str, question: str, yes: str, no: str) -> Elicitation:
    return Elicitation(
        f"{paraphrase}-{order}", paraphrase, order, "{prompt} " + question, yes=yes, no=no
    )


class ParityTask(CompletionTask):
    name = "parity"
    summary = "a task for tests"
    behavior = "answers with an odd checksum"
    max_new_tokens = 6
    event = Event(
        "{prompt}", "Would <your> answer be odd", "<Your> answer is odd.", "<Your> answer is even."
    )
    elicitations = (
        elicitation("letters", "ab", "odd A or even B?", "A", "B"),
        elicitation("letters", "ba", "even A or odd B?", "B", "A"),
        elicitation("words", "yes-no", "odd, yes or no?", "yes", "no"),
        elicitation("words", "no-yes", "odd, no or yes?", "yes", "no"),
    )
    n_groups = 30

    def items(self) -> list[Item]:
        return [
            Item(
                id=f"parity-{group:02d}{letter}",
                task=self.name,
                group=f"group-{group:02d}",
                stratum=("low", "high")[group % 2],
                messages=({"role": "user", "content": _text(2 * group + i)},),
                meta={"entity": f"kind-{group % 7}"},
            )
            for group in range(self.n_groups)
            for i, letter in enumerate("ab")
        ]

    def judge(self, items: Sequence[Item], completions: Sequence[str]) -> list[Judgment]:
        odd = [zlib.crc32(text.encode()) % 2 for text in completions]
        return [
            Judgment(one, ("even", "odd")[one], votes={"a": str(one), "b": str(one)}) for one in odd
        ]


class SilentTask(ParityTask):
    """The same, but nothing that the model does ever counts: a class without items."""

    name = "silent"

    def judge(self, items: Sequence[Item], completions: Sequence[str]) -> list[Judgment]:
        return [Judgment(0, "even") for _ in completions]

    def items(self) -> list[Item]:
        return [
            Item(f"silent-{i}", self.name, f"g{i}", "all", ({"role": "user", "content": _text(i)},))
            for i in range(20)
        ]


def _text(seed: int) -> str:
    picked = [WORDS[(seed * 7 + 5 * i + seed * i) % len(WORDS)] for i in range(4 + seed % 5)]
    return f"{' '.join(picked)} {seed}"


def register() -> None:
    TASKS.update({task.name: task for task in (ParityTask, SilentTask)})


def save_tiny_model(folder: Path) -> Path:
    """Save a tiny random Llama with its tokenizer as a local model folder."""
    from tests.conftest import make_tiny_model

    model = make_tiny_model("llama")
    model.module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    from experiments.cli import main

    register()
    main()
