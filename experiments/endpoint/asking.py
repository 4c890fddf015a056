"""What is asked of an endpoint and what it answers, as records that can be written down and found again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hooks import Prompt

TOP_LOGPROBS = 20
"""Alternatives to the first token of an answer that are asked for: the most that the interface allows."""


@dataclass(frozen=True)
class Ask:
    """One request: a chat and how it is to be answered.

    `temperature` 0 is greedy; `seed` is passed on, though few endpoints promise to honor it. `logprobs` asks for the
    first token's likeliest alternatives as well.
    """

    prompt: Prompt
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    logprobs: bool = False

    @property
    def messages(self) -> list[dict[str, str]]:
        """The chat; plain text becomes one user message."""
        if self.prompt.messages is None:
            return [{"role": "user", "content": self.prompt.instruction}]
        return [{"role": m["role"], "content": m["content"]} for m in self.prompt.messages]

    @property
    def key(self) -> str:
        """A digest of all that may change the answer: equal requests have equal keys, whatever their prompt's id."""
        what = [self.messages, self.max_tokens, self.temperature, self.seed, self.logprobs]
        return hashlib.sha256(json.dumps(what).encode("ascii")).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What came back.

    `finish_reason` is the endpoint's own word ("stop", "length", "content_filter"). `first_token` maps the likeliest
    first tokens to their log-probabilities; None where the endpoint gave none. `served_by` is the model that the
    endpoint says has answered.
    """

    text: str
    n_tokens: int
    finish_reason: str
    first_token: Mapping[str, float] | None
    served_by: str

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)
