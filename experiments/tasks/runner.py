"""What a task may ask of the model under test while its behavior is observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from jaxtyping import Float

from hooks import Completion, Prompt

Decided = Callable[[str], bool]
"""From the text of a completion so far to whether its label cannot change any more."""


class Runner(Protocol):
    """Runs prompts; a model in this process, or an endpoint.

    Attributes:
        samples: completions a prompt where a task does not say otherwise; 1 is greedy, more are sampled at
            temperature 1.
    """

    samples: int

    def complete(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int,
        decided: Sequence[Decided] | None = None,
        samples: int | None = None,
    ) -> list[tuple[Completion, ...]]:
        """The completions of every prompt, in order. Prompts of equal content are run once, whatever their ids.

        Args:
            prompts: ids need not be unique.
            max_new_tokens: most tokens a completion may have.
            decided: stops a completion whose label cannot change any more, one a prompt.
            samples: completions a prompt in place of the runner's own number.
        """
        ...

    def option_logprobs(
        self, prompts: Sequence[Prompt], options: Mapping[str, Sequence[str]]
    ) -> dict[str, Float[np.ndarray, " prompt"]]:
        """Option -> log-probability of its words, over all spellings, as the first token of an answer.

        Raises:
            ValueError: an endpoint that gives no probabilities.
        """
        ...
