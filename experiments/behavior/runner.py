"""Runs the prompts of a task on a model in this process, and keeps what was finished when the process is killed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float

from experiments.progress import Reporter, Silent
from experiments.records import append_rows, read_whole_rows
from experiments.tasks.runner import Decided
from hooks import Completion, Kept, Model, Prompt, generate, option_logprobs

CHUNK = 64
"""Prompts generated between two writes to the disk (what a kill can cost), and completions written side by side: the
weights are read once a step for all of them."""


@dataclass(frozen=True)
class Asked:
    """A prompt, its content for an id, by which samples are seeded; and what may end its completions."""

    prompt: Prompt
    ends: Sequence[Decided]

    def is_decided(self, text: str) -> bool:
        """Whether nobody who asked needs more of the completion."""
        return bool(self.ends) and all(end(text) for end in self.ends)


class LocalRunner:
    """A `Runner` on a model in this process.

    The batches of a call are fixed from all its prompts before the first token, so that a call picked up from `store`
    (completions already finished) batches as an unbroken one does and gives the same text. Samples are seeded by the
    content of a prompt: equal prompts have equal completions, in whatever task they stand.

    Args:
        model: from `load_model`.
        samples: as `Runner.samples`.
        seed: of the samples.
        store: JSON Lines of finished completions, added to as they come; None keeps nothing.
        reporter: shows how far a call is, under the name `stage`.
    """

    def __init__(
        self,
        model: Model,
        *,
        samples: int = 1,
        seed: int = 0,
        store: Path | None = None,
        reporter: Reporter | None = None,
        stage: str = "behavior",
    ) -> None:
        self.model = model
        self.samples = samples
        self.seed = seed
        self.store = store
        self.reporter = reporter or Silent()
        self.stage = stage

    def complete(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int,
        decided: Sequence[Decided] | None = None,
        samples: int | None = None,
    ) -> list[tuple[Completion, ...]]:
        """As `Runner.complete`."""
        k = self.samples if samples is None else samples
        contents = [_content(prompt) for prompt in prompts]
        ends: dict[str, list[Decided]] = {content: [] for content in contents}
        for content, end in zip(contents, decided or (), strict=decided is not None):
            ends[content].append(end)
        keys = [
            _key(content, max_new_tokens, k, self.seed, *map(_name, ends[content]))
            for content in contents
        ]
        distinct = {
            key: Asked(replace(prompt, id=content), ends[content])
            for key, prompt, content in zip(keys, prompts, contents, strict=True)
        }
        found: dict[str, tuple[Completion, ...]] = {}
        with self.reporter.stage(self.stage, len(distinct)) as advance:
            for chunk in _chunks(distinct):
                found |= self._completed(chunk, max_new_tokens, k)
                advance(len(chunk))
        return [
            tuple(replace(one, id=prompt.id) for one in found[key])
            for key, prompt in zip(keys, prompts, strict=True)
        ]

    def complete_read(self, prompts: Sequence[Prompt], max_new_tokens: int, kept: Kept) -> None:
        """Answer prompts greedily that a capture has just read, for a later `complete` of them with one sample.

        Args:
            prompts: some of those that `kept` is of.
            max_new_tokens: most tokens a completion may have.
            kept: what the model keeps of them.

        Raises:
            ValueError: there is no store to keep the answers in.
        """
        if self.store is None:
            raise ValueError("store: None keeps no answers; name a file")
        contents = {_content(prompt): prompt for prompt in prompts}
        asked = {
            _key(content, max_new_tokens, 1, self.seed): Asked(replace(prompt, id=content), ())
            for content, prompt in contents.items()
        }
        self._completed(asked, max_new_tokens, 1, kept)

    @cached_property
    def _stored(self) -> dict[str, tuple[Completion, ...]]:
        """What the store holds, read once: nobody else writes to it while this runner is at work."""
        return {} if self.store is None else _read(self.store)

    def _completed(
        self, asked: Mapping[str, Asked], max_new_tokens: int, k: int, kept: Kept | None = None
    ) -> dict[str, tuple[Completion, ...]]:
        """The completions of a batch, out of the store or into it; prompts are run together, all or none."""
        held = self._stored
        if all(key in held for key in asked):
            return {key: held[key] for key in asked}
        made = self._generate(asked, max_new_tokens, k, kept)
        fresh = {key: own for key, own in made.items() if key not in held}
        if self.store is not None:
            append_rows(self.store, (_row(key, own) for key, own in fresh.items()))
            held |= fresh
        return {key: held.get(key, made[key]) for key in asked}

    def _generate(
        self, asked: Mapping[str, Asked], max_new_tokens: int, k: int, kept: Kept | None
    ) -> dict[str, tuple[Completion, ...]]:
        ended = any(one.ends for one in asked.values())
        completions = generate(
            self.model,
            [one.prompt for one in asked.values()],
            max_new_tokens=max_new_tokens,
            n_samples=k,
            temperature=None if k == 1 else 1.0,
            seed=self.seed,
            batch_size=CHUNK,
            decided=[one.is_decided for one in asked.values()] if ended else None,
            kept=kept,
        )
        return {key: tuple(completions[i * k : (i + 1) * k]) for i, key in enumerate(asked)}

    def option_logprobs(
        self, prompts: Sequence[Prompt], options: Mapping[str, Sequence[str]]
    ) -> dict[str, Float[np.ndarray, " prompt"]]:
        """As `Runner.option_logprobs`."""
        keys = [_content(prompt) for prompt in prompts]
        distinct = {key: replace(prompt, id=key) for key, prompt in zip(keys, prompts, strict=True)}
        read = option_logprobs(self.model, list(distinct.values()), options)
        place = {key: i for i, key in enumerate(distinct)}
        rows = [place[key] for key in keys]
        return {name: np.asarray(values)[rows] for name, values in read.items()}


def _content(prompt: Prompt) -> str:
    """A key of what the model reads."""
    content = json.dumps([prompt.messages, prompt.text], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def _key(*parts: int | str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _name(decided: Decided) -> str:
    """A function by its name, an object by that of its class."""
    named = decided if hasattr(decided, "__qualname__") else type(decided)
    return f"{named.__module__}.{named.__qualname__}"


def _chunks(asked: Mapping[str, Asked]) -> list[dict[str, Asked]]:
    ordered = sorted(asked.items(), key=lambda pair: (*_place(pair[1].prompt), pair[0]))
    return [dict(ordered[i : i + CHUNK]) for i in range(0, len(ordered), CHUNK)]


def _place(prompt: Prompt) -> tuple[int, str, int]:
    """Questions about one text side by side, for it is read once; else like lengths, which waste the least padding."""
    length = len(prompt.text or "") + sum(len(m["content"]) for m in prompt.messages or ())
    quote = prompt.quote or ""
    return len(quote) or length, quote, length


def _row(key: str, completions: Sequence[Completion]) -> dict[str, object]:
    return {"key": key, "completions": [asdict(one) for one in completions]}


def _read(store: Path) -> dict[str, tuple[Completion, ...]]:
    return {
        row["key"]: tuple(Completion(**one) for one in row["completions"])
        for row in read_whole_rows(store)
    }
