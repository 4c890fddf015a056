"""How much a model leans to one option of a question, before a token of its answer exists.

The log-probability of an option is that of the first token of its answer, summed over the option's spellings. Options
are told apart by their first token, so they must differ in their first letter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from experiments.tasks.counterfactual.pool import Asked, Question
from experiments.tasks.runner import Runner


def tells_options_apart(question: Question) -> bool:
    """Whether no two options begin with the same letter."""
    firsts = [option[0].lower() for option in question.options]
    return len(set(firsts)) == len(firsts)


def option_logprobs_of(asked: Sequence[Asked], run: Runner) -> list[Float[np.ndarray, " option"]]:
    """The log-probability of every option of each question, in the order of its options.

    Questions of the same options that stand side by side are read together.

    Raises:
        ValueError: an endpoint that gives no probabilities.
    """
    found: list[Float[np.ndarray, " option"]] = []
    start = 0
    while start < len(asked):
        options = asked[start].options
        end = start
        while end < len(asked) and asked[end].options == options:
            end += 1
        prompts = [one.prompt(f"asked-{i}") for i, one in enumerate(asked[start:end])]
        read = run.option_logprobs(prompts, {option: (option,) for option in options})
        found += list(np.stack([read[option] for option in options], axis=1))
        start = end
    return found


def shares(logprobs: Float[np.ndarray, " option"]) -> Float[np.ndarray, " option"]:
    """The probabilities of the options among themselves."""
    odds = np.exp(logprobs - logprobs.max())
    return np.asarray(odds / odds.sum())
