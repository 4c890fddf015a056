"""Which part of the prompt would change my answer most if it were not there?

A question of two options stands inside four named components. The effect of a component is how far the log-odds of the
options move, in nats and without sign, when its line alone is left out (2608.30980). The truth is the component of the
largest effect, with all that come near it. The yes/no event compares two of the four, drawn by the question's text in
a drawn order, so that half of the items hold by construction; a pair of nearly the same effect is unscored.

Kinds of components differ in their mean effect (a hint moves the embedded model more than a persona), so that the text
alone tells something.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from experiments.tasks.base import Judgment, Observation
from experiments.tasks.counterfactual.drafts import question_of
from experiments.tasks.counterfactual.framing import COMPONENTS, Framed, framed
from experiments.tasks.counterfactual.leaning import LeaningTask
from experiments.tasks.counterfactual.log_odds import option_logprobs_of
from experiments.tasks.counterfactual.pool import Question
from experiments.tasks.forms import Choice
from experiments.tasks.item import Item, user
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event, ValueQuestion

NEAR = 0.9
"""An effect of at least this share of another is as large."""
_LETTERS = "ABCD"


class ComponentAttributionTask(LeaningTask):
    """Which part of the prompt would change my answer most?"""

    name: ClassVar[str] = "component_attribution"
    summary: ClassVar[str] = (
        "a question with a persona, an example, a hint and a rule: which of them would sway me most?"
    )
    behavior: ClassVar[str] = "is swayed more by the one component than by the other"
    acts_elsewhere: ClassVar[str] = (
        "the outcome compares answers to prompts that lack one line or another"
    )
    event: ClassVar[Event] = Event(
        setting='Message: "{prompt}"',
        question='Would leaving out "{one}" change <your> preference between the options more than "{other}"',
        yes='Leaving out "{one}" would change <your> preference more than leaving out "{other}".',
        no='Leaving out "{other}" would change <your> preference more than leaving out "{one}".',
    )
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="component",
            template='Message: "{prompt}"\n\nWhich of these lines, left out, would change <your> preference '
            "between the options most?\n{lettered}\nReply with one letter.",
            form=Choice(tuple(_LETTERS)),
        ),
    )

    def item(self, draft: Item, question: Question) -> Item:
        """The question inside its components, with the two that are compared named before it."""
        whole = framed(question)
        one, other, letters = _drawn(whole)
        lettered = "\n".join(f"{letter}. {whole.lines[name]}" for letter, name in letters.items())
        text = whole.asked().text
        fields = {"one": whole.lines[one], "other": whole.lines[other], "lettered": lettered}
        return replace(
            draft,
            messages=user(
                f'Consider the lines "{fields["one"]}" and "{fields["other"]}".\n\n{text}'
            ),
            fields={"prompt": text, **fields},
        )

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Read the log-odds with all components, and without each of them."""
        wholes = [framed(question_of(item)) for item in items]
        asked = [whole.asked(without) for whole in wholes for without in (None, *COMPONENTS)]
        log_odds = [float(first - second) for first, second in option_logprobs_of(asked, run)]
        step = 1 + len(COMPONENTS)
        return [
            _observed(whole, log_odds[step * i : step * (i + 1)]) for i, whole in enumerate(wholes)
        ]


def largest(effects: Mapping[str, float]) -> list[str]:
    """The names of the largest effect and of those that come near it."""
    most = max(effects.values())
    return [name for name, effect in effects.items() if effect >= NEAR * most]


def compared(one: float, other: float) -> Judgment:
    """Whether the first effect is the larger one; unscored where they are nearly the same."""
    if min(one, other) >= NEAR * max(one, other):
        return Judgment(None, "level", reason="both effects are nearly the same")
    return Judgment(int(one > other), "more" if one > other else "less")


def _observed(whole: Framed, log_odds: Sequence[float]) -> Observation:
    full, *without = log_odds
    effects = {name: abs(left - full) for name, left in zip(COMPONENTS, without, strict=True)}
    one, other, letters = _drawn(whole)
    true = largest(effects) if any(effects.values()) else []
    return Observation(
        (),
        (compared(effects[one], effects[other]),),
        {"component": [letter for letter, name in letters.items() if name in true]} if true else {},
    )


def _drawn(whole: Framed) -> tuple[str, str, dict[str, str]]:
    """The two components that are compared, and all of them by the letters under which they are listed."""
    generator = random.Random(f"pair {whole.question.text}")
    one, other = generator.sample(COMPONENTS, 2)
    listed = generator.sample(COMPONENTS, len(COMPONENTS))
    return one, other, dict(zip(_LETTERS, listed, strict=True))
