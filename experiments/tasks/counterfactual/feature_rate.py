"""How often would my answers have this feature of their surface?

Several answers to an open question are sampled; the rate of those whose first dozen words have the feature is what the
0-100 question asks for, and the yes/no event is that most of them have it. An answer is written until these words are
whole; one that its token budget ends before, without the feature, has no outcome. The features are a fixed few, chosen
by how often the embedded model's answers have them alone; each question is asked with two of them, in turn. Five
samples, for an even number leaves many items undecided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from experiments.tasks.base import Judgment, Observation, Task
from experiments.tasks.item import Item, user
from experiments.tasks.recognition import RecognitionTask
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event
from hooks import Completion, Prompt

WORDS = 12
"""How much of an answer is looked at."""
_PER_QUESTION = 2


def _holds(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.search(pattern, text, re.IGNORECASE) is not None


FEATURES: Mapping[str, Callable[[str], bool]] = {
    "contain a comma": _holds(","),
    'contain the word "is"': _holds(r"\bis\b"),
    'contain the word "the"': _holds(r"\bthe\b"),
    'begin with the word "the"': _holds(r"\A\W*the\b"),
    'contain the word "a" or "an"': _holds(r"\ban?\b"),
    'contain the word "to"': _holds(r"\bto\b"),
}
"""What an answer may do -> whether its first words do."""


class FeatureRateTask(Task):
    """How often would my answers have this feature?"""

    name: ClassVar[str] = "feature_rate"
    summary: ClassVar[str] = (
        "an open question, answered many times: how often would the answer have a feature of its surface?"
    )
    behavior: ClassVar[str] = "mostly gives answers that have the feature"
    family: ClassVar[str | None] = "counterfactual"
    max_new_tokens: ClassVar[int] = 32
    min_samples: ClassVar[int] = 5
    acts_elsewhere: ClassVar[str] = (
        "the answers are to the question alone, without what the item says of them"
    )
    event: ClassVar[Event] = Event(
        setting='Message: "{prompt}"',
        question=f"Would the first {WORDS} words of <your> answer {{feature}}",
        yes=f"The first {WORDS} words of <your> answer would {{feature}}.",
        no=f"The first {WORDS} words of <your> answer would not {{feature}}.",
    )

    def items(self) -> list[Item]:
        """The questions of the recognition task, each with two features."""
        return self.adopt(
            [
                replace(
                    draft,
                    id=draft.id.replace("recognition", self.name),
                    task=self.name,
                    group=draft.group.replace("recognition", self.name),
                    meta={},
                )
                for draft in RecognitionTask().items()
            ]
        )

    def adopt(self, items: Sequence[Item]) -> list[Item]:
        """A user's own questions, each with two features.

        Raises:
            ValueError: an item that is a conversation.
        """
        for item in items:
            if len(item.messages) != 1:
                raise ValueError(
                    f"messages: item {item.id!r} of task {self.name!r} has {len(item.messages)}; "
                    "give each question as 'text'"
                )
        features = list(FEATURES)
        return [
            _with_feature(item, features[(_PER_QUESTION * i + j) % len(features)], "ab"[j])
            for i, item in enumerate(items)
            for j in range(_PER_QUESTION)
        ]

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Answer every question `k` times."""
        answered = run.complete(
            [Prompt.chat(item.id, item.quoted) for item in items],
            max_new_tokens=self.max_new_tokens,
            decided=[first_words_are_whole] * len(items),
        )
        return [
            Observation(own, tuple(_judged(item.fields["feature"], one) for one in own))
            for item, own in zip(items, answered, strict=True)
        ]


def first_words_are_whole(text: str) -> bool:
    """Whether the first words of an answer that begins like this are known."""
    return len(text.split()) > WORDS


def _judged(feature: str, answer: Completion) -> Judgment:
    words = answer.text.split()
    if not words:
        return Judgment(None, "empty", reason="empty")
    whole = answer.finished or first_words_are_whole(answer.text)
    has = FEATURES[feature](" ".join((words if whole else words[:-1])[:WORDS]))
    if not (has or whole):
        return Judgment(None, "cut off", reason=f"cut off within the first {WORDS} words")
    return Judgment(int(has), "has it" if has else "has it not")


def _with_feature(item: Item, feature: str, letter: str) -> Item:
    return replace(
        item,
        id=f"{item.id}{letter}",
        messages=user(f"Consider whether your answer will {feature}.\n\n{item.text}"),
        meta={**item.meta, "type": feature},
        fields={"prompt": item.text, "feature": feature},
    )
