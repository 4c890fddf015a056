"""Runs the prompts of a task on an endpoint: the `Runner` whose words are all that is known of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from experiments.elicitation import ANSWER_TOKENS
from experiments.endpoint.asking import Answer, Ask
from experiments.endpoint.book import AnswerBook
from experiments.endpoint.options import option_sums
from experiments.progress import Reporter, Silent
from experiments.tasks import Decided
from hooks import Completion, Prompt

_SAMPLES_A_SEED = 10_000


class EndpointRunner:
    """A `Runner` on an endpoint.

    A sample is a request of its own, at temperature 1 with a seed of its own; one sample is greedy (temperature 0). An
    endpoint may honor neither seed nor greediness: what it answered is what `book` holds.

    Args:
        book: asks, and keeps what was answered.
        samples: as `Runner.samples`.
        seed: of the samples.
        reporter: shows how far a call is, under the name `stage`.
    """

    def __init__(
        self,
        book: AnswerBook,
        *,
        samples: int = 1,
        seed: int = 0,
        reporter: Reporter | None = None,
        stage: str = "behavior",
    ) -> None:
        self.book = book
        self.samples = samples
        self.seed = seed
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
        """As `Runner.complete`; `decided` is not used, for an endpoint stops at its own end or the token limit."""
        k = self.samples if samples is None else samples
        asks = [ask for prompt in prompts for ask in self._asks(prompt, max_new_tokens, k)]
        answers = self._answers(asks)
        completions = [
            Completion(
                id=ask.prompt.id,
                sample=i % k,
                text=answer.text,
                n_tokens=answer.n_tokens,
                finished=answer.finish_reason != "length",
            )
            for i, (ask, answer) in enumerate(zip(asks, answers, strict=True))
        ]
        return [tuple(completions[i : i + k]) for i in range(0, len(completions), k)]

    def option_logprobs(
        self, prompts: Sequence[Prompt], options: Mapping[str, Sequence[str]]
    ) -> dict[str, Float[np.ndarray, " prompt"]]:
        """As `Runner.option_logprobs`, from the alternatives that the endpoint gives: see `option_sums`.

        The request is that of a greedy answer of `ANSWER_TOKENS`: where it was put for its words, it is not put again.

        Raises:
            ValueError: the endpoint gives no log-probabilities.
        """
        firsts = self._first_tokens(prompts)
        if not _mostly_told(firsts):
            raise ValueError(
                "endpoint: gives no log-probabilities of first tokens, which this task needs; "
                "give another endpoint, or another task"
            )
        sums = [option_sums(first or {}, options) for first in firsts]
        return {name: np.array([one[name] for one in sums]) for name in options}

    def tells_options(self, prompts: Sequence[Prompt]) -> bool:
        """Whether the endpoint gives log-probabilities with its answers; one that was filtered may lack them."""
        return _mostly_told(self._first_tokens(prompts))

    def _first_tokens(self, prompts: Sequence[Prompt]) -> list[Mapping[str, float] | None]:
        asks = [self._asks(prompt, ANSWER_TOKENS, 1)[0] for prompt in prompts]
        return [answer.first_token for answer in self._answers(asks)]

    def _answers(self, asks: Sequence[Ask]) -> list[Answer]:
        if self.book.holds(asks):
            return self.book.answers(asks, lambda _: None)
        with self.reporter.stage(self.stage, len(asks)) as advance:
            return self.book.answers(asks, advance)

    def _asks(self, prompt: Prompt, max_tokens: int, k: int) -> list[Ask]:
        if k == 1:
            return [Ask(prompt, max_tokens, seed=self.seed, logprobs=True)]
        first = self.seed * _SAMPLES_A_SEED
        return [Ask(prompt, max_tokens, temperature=1.0, seed=first + i) for i in range(k)]


def _mostly_told(firsts: Sequence[Mapping[str, float] | None]) -> bool:
    return 2 * sum(first is not None for first in firsts) > len(firsts)
