"""Which optional parts of a request an endpoint takes: one that refuses a part is asked again without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from experiments.endpoint.asking import TOP_LOGPROBS, Ask

_FEWER_LOGPROBS = {TOP_LOGPROBS: 5, 5: 0}
"""Where so many alternatives are refused, so many are tried next."""


@dataclass(frozen=True)
class Dialect:
    """What is sent with a request.

    Attributes:
        token_limit: the field that limits an answer's length; newer models want `max_completion_tokens`.
        top_logprobs: alternatives to the first token that are asked for; 0 asks for none.
        seed: whether the seed is sent.
        temperature: whether the temperature is sent; without it the endpoint answers at its own.
    """

    token_limit: str = "max_tokens"
    top_logprobs: int = TOP_LOGPROBS
    seed: bool = True
    temperature: bool = True

    def body(self, model: str, ask: Ask) -> dict[str, Any]:
        """The JSON body of a request."""
        body: dict[str, Any] = {
            "model": model,
            "messages": ask.messages,
            self.token_limit: ask.max_tokens,
        }
        if self.temperature:
            body["temperature"] = ask.temperature
        if self.seed:
            body["seed"] = ask.seed
        if ask.logprobs and self.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        return body

    def without(self, complaint: str) -> Dialect | None:
        """The dialect that leaves out what a refusal names, or None where it names nothing optional."""
        if "max_tokens" in complaint and self.token_limit == "max_tokens":
            return replace(self, token_limit="max_completion_tokens")
        if "logprobs" in complaint and self.top_logprobs:
            return replace(self, top_logprobs=_FEWER_LOGPROBS[self.top_logprobs])
        if "temperature" in complaint and self.temperature:
            return replace(self, temperature=False)
        if "seed" in complaint and self.seed:
            return replace(self, seed=False)
        return None

    @property
    def left_out(self) -> list[str]:
        """Names of the parts that the endpoint refused, for the results."""
        parts = {
            "seed": self.seed,
            "temperature": self.temperature,
            "logprobs": self.top_logprobs > 0,
        }
        return [name for name, sent in parts.items() if not sent]
