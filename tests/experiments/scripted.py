"""A runner that plays a model by a rule: what is observed of it is known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hooks import Completion, Prompt


class ScriptedRunner:
    """Answers by `say(asked, sample)`, and gives every option the log-probability `lean(asked, option)`.

    `asked` is the last user message. A completion has as many tokens as words.
    """

    def __init__(
        self,
        say: Callable[[str, int], str] = lambda asked, sample: "yes",
        *,
        lean: Callable[[str, str], float] = lambda asked, option: -1.0,
        samples: int = 1,
    ) -> None:
        self.say = say
        self.lean = lean
        self.samples = samples
        self.asked: list[str] = []

    def complete(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int,
        decided: Callable[[str], bool] | None = None,
        samples: int | None = None,
    ) -> list[tuple[Completion, ...]]:
        self.asked += [prompt.instruction for prompt in prompts]
        return [
            tuple(
                self._completion(prompt, sample, max_new_tokens)
                for sample in range(samples or self.samples)
            )
            for prompt in prompts
        ]

    def _completion(self, prompt: Prompt, sample: int, most: int) -> Completion:
        words = self.say(prompt.instruction, sample).split(" ")
        text = " ".join(words[:most])
        return Completion(prompt.id, sample, text, min(len(words), most), len(words) < most)

    def option_logprobs(
        self, prompts: Sequence[Prompt], options: Mapping[str, Sequence[str]]
    ) -> dict[str, np.ndarray]:
        return {
            option: np.array([self.lean(prompt.instruction, option) for prompt in prompts])
            for option in options
        }
