"""Reinforcement learning with a verifiable reward: the model says what it will do, and is rewarded where it does it.

METHODS section 10, after 2608.30980: reward = format x (0.5 + score), where format is whether the answer can be read
and score whether it is right; the advantage is the reward minus the mean of the answers to the same prompt, not divided
by their deviation; no penalty for moving away from the untrained model; one step on fresh answers a batch.

An answer's log-probability is that of the policy that drew it, softmax(logits / temperature). So the gradient of the
loss is, over the draw of the answers, that of the expected reward times -(1 - 1/group): an answer is part of the mean
that it is held against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from experiments.elicitation import ANSWER_TOKENS, option_spellings
from experiments.self_prediction.continuations import Continuation, continuation_logprobs
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.refreshed import RefreshedLabels
from experiments.self_prediction.schedule import check_batches, examples_of_step
from experiments.tasks import Elicitation
from hooks import Model, Prompt, check_lengths, generate, option_logprobs, render

Reward = Literal["score", "format"]
"""`score`: format x (0.5 + score). `format`: the same with every score at 0.5, a control that no label enters."""


@dataclass(frozen=True)
class Asked:
    """A question about an item of the training set, as it stands in a step."""

    prompt: Prompt
    item: int
    elicitation: Elicitation


@dataclass(frozen=True)
class Answered:
    """The distinct answers to one prompt: their tokens up to the stop token, how often each was drawn, and its text."""

    asked: Asked
    tokens: tuple[tuple[int, ...], ...]
    counts: tuple[int, ...]
    texts: tuple[str, ...]


class Reinforce:
    """Policy gradient on the answers to self-prediction questions, an `Objective`.

    A step asks about `batch` pairs of item and question, of which an epoch holds all, in an order and with draws that
    depend on seed and step alone. Distinct answers to a prompt are read once, weighted by their summed advantage.

    Args:
        model: with adapters in place, so that answers are drawn from what is trained.
        train, validation: items with labels.
        elicitations: the questions, each of every item.
        parameters: what is trained, by name.
        batch: prompts a step.
        group: answers a prompt.
        temperature: of the policy that is trained; at 1 it is the model as it stands.
        reward: what an answer earns.
        accumulate: into how many micro-batches a step's prompts are divided, to save memory.
        seed: of order and draws.
        answer_tokens: most tokens of an answer.
        refreshed: labels that follow the model while it is trained; None keeps those given.

    Attributes:
        metrics: of the last step: mean reward, share of answers that could be read, distinct answers a prompt.

    Raises:
        ValueError: a count that is too small, no elicitation, or a prompt longer than the model reads.
    """

    def __init__(
        self,
        model: Model,
        train: Labeled,
        validation: Labeled,
        elicitations: Sequence[Elicitation],
        parameters: Mapping[str, nn.Parameter],
        *,
        batch: int = 16,
        group: int = 8,
        temperature: float = 1.0,
        reward: Reward = "score",
        accumulate: int = 1,
        seed: int = 0,
        answer_tokens: int = ANSWER_TOKENS,
        refreshed: RefreshedLabels | None = None,
    ) -> None:
        check_batches(train, validation, batch, accumulate)
        _check(elicitations, group, temperature)
        self.parameters = parameters
        self.metrics: dict[str, float] = {}
        self._model = model
        self._train = train
        self._validation = validation
        self._elicitations = tuple(elicitations)
        self._batch = batch
        self._group = group
        self._temperature = temperature
        self._reward = reward
        self._accumulate = accumulate
        self._seed = seed
        self._answer_tokens = answer_tokens
        self._refreshed = refreshed
        for part in (train, validation):
            check_lengths(model, self._prompts(part), answer_tokens)

    def losses(self, step: int) -> Iterator[Tensor]:
        """The step's micro-batches; answers are drawn, and labels refreshed, before the first of them."""
        if self._refreshed is not None:
            self._train, self._validation = self._refreshed.at(step, self._train, self._validation)
        answered = self._answered(self._asked(step))
        rewards = [np.array([self._earned(one, text) for text in one.texts]) for one in answered]
        self._measure(answered, rewards)
        n_answers = len(answered) * self._group
        for part in np.array_split(np.arange(len(answered)), self._accumulate):
            yield self._loss([answered[i] for i in part], [rewards[i] for i in part], n_answers)

    def validate(self) -> float:
        """Mean negative reward of the validation items over all questions, by exact option odds; nothing is drawn.

        An answer counts as read where its first token begins an option, and says that option; at temperature 1.
        """
        questions = self._elicitations
        logprobs = option_logprobs(
            self._model, self._prompts(self._validation), option_spellings(questions)
        )
        shape = (len(self._validation), len(questions))
        odds = {
            word: found.exp().double().numpy().reshape(shape) for word, found in logprobs.items()
        }
        yes, no = (
            np.stack([odds[getattr(q, side)][:, i] for i, q in enumerate(questions)], axis=1)
            for side in ("yes", "no")
        )
        right = np.where(self._validation.outcome[:, None] == 1, yes, no)
        score = right if self._reward == "score" else 0.5 * (yes + no)
        return -float((0.5 * (yes + no) + score).mean())

    def _prompts(self, part: Labeled) -> list[Prompt]:
        """Every item asked every question, item-major."""
        return [question.prompt(item) for item in part.items for question in self._elicitations]

    def _asked(self, step: int) -> list[Asked]:
        """The pairs of a step: `batch` a step from epochs that hold each pair once."""
        n_pairs = len(self._train) * len(self._elicitations)
        pairs = examples_of_step(step, self._batch, n_pairs, self._seed)
        asked = []
        for place, pair in enumerate(pairs.tolist(), start=step * self._batch):
            item, question = divmod(pair, len(self._elicitations))
            elicitation = self._elicitations[question]
            prompt = elicitation.prompt(self._train.items[item])
            # By its place, which seeds the draws: a pair may occur twice where epochs meet.
            asked.append(Asked(replace(prompt, id=f"answer-{place}"), item, elicitation))
        return asked

    def _answered(self, asked: Sequence[Asked]) -> list[Answered]:
        """Draw `group` answers to each prompt."""
        tokens: dict[tuple[str, int], tuple[int, ...]] = {}
        completions = generate(
            self._model,
            [one.prompt for one in asked],
            max_new_tokens=self._answer_tokens,
            n_samples=self._group,
            temperature=self._temperature,
            seed=self._seed,
            batch_size=self._batch * self._group,
            on_tokens=lambda id, sample, own: tokens.update({(id, sample): tuple(own)}),
        )
        texts: dict[str, dict[tuple[int, ...], str]] = {one.prompt.id: {} for one in asked}
        for completion in completions:
            texts[completion.id][tokens[completion.id, completion.sample]] = completion.text
        counts = Counter((id, own) for (id, _), own in tokens.items())
        return [
            Answered(
                one,
                tuple(texts[one.prompt.id]),
                tuple(counts[one.prompt.id, own] for own in texts[one.prompt.id]),
                tuple(texts[one.prompt.id].values()),
            )
            for one in asked
        ]

    def _earned(self, answered: Answered, text: str) -> float:
        parsed, _ = answered.asked.elicitation.parse(text)
        if parsed is None:
            return 0.0
        if self._reward == "format":
            return 1.0
        return 0.5 + float(parsed == self._train.outcome[answered.asked.item])

    def _measure(self, answered: Sequence[Answered], rewards: Sequence[np.ndarray]) -> None:
        earned = np.concatenate(rewards)
        drawn = np.concatenate([one.counts for one in answered])
        self.metrics = {
            "reward": float(np.average(earned, weights=drawn)),
            "parse_rate": float(np.average(earned > 0, weights=drawn)),
            "distinct_answers": len(earned) / len(answered),
        }

    def _loss(
        self, answered: Sequence[Answered], rewards: Sequence[np.ndarray], n_answers: int
    ) -> Tensor:
        """Minus the mean over all of a step's answers of advantage x log-probability; this part's share of it."""
        read: list[Continuation] = []
        weights: list[float] = []
        for one, earned in zip(answered, rewards, strict=True):
            counts = np.array(one.counts)
            summed = counts * (earned - np.average(earned, weights=counts))
            prompt = render(self._model, one.asked.prompt)
            for tokens, weight in zip(one.tokens, summed.tolist(), strict=True):
                if weight:
                    read.append(Continuation(prompt, tokens))
                    weights.append(weight)
        if not read:  # Connected to what is trained, so that a backward pass finds its way.
            return torch.stack([0.0 * one.sum() for one in self.parameters.values()]).sum()
        logprobs = continuation_logprobs(self._model, read, temperature=self._temperature)
        return -(logprobs * logprobs.new_tensor(weights)).sum() / n_answers


def _check(elicitations: Sequence[Elicitation], group: int, temperature: float) -> None:
    if not elicitations:
        raise ValueError("elicitations: none; give at least one question")
    if group < 2:
        raise ValueError(
            f"group: {group} answers a prompt cannot be held against each other; give at least 2"
        )
    if not temperature > 0:
        raise ValueError(
            f"temperature: {temperature} is not positive; greedy answers teach nothing"
        )
