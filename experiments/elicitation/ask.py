"""Ask the model to predict its own behavior, and read the answer in two ways.

Every item is asked by every question in a fresh conversation. The log-odds of a question's options are read at the
answer slot, in the same forward pass that captures the activations there. Questions are also answered in words and
parsed, which is what a person would see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from experiments.tasks import Elicitation, Framing, Item, Runner, Task, ValueQuestion
from hooks import Prompt, spellings

ANSWER_TOKENS = 8
"""Length of a generated answer: an option and what may stand around it."""

Form = Literal["options", "percent", "value"]
Words = Literal["full", "short"]
"""How much is answered in words: every wording, or the first alone."""
OTHER_CONTEXTS = ("other_framing", "input_question")
"""Contexts of METHODS section 1 beside the task and the self-prediction."""
NOT_ASKED = "not asked"
"""Why a question whose options were read has no answer in words."""
Options = tuple[Float[np.ndarray, " item"], Float[np.ndarray, " item"]]
"""Log-probabilities of a question's `yes` and of its `no` at the answer slot of every item."""


@dataclass(frozen=True)
class Questions:
    """What the model is asked about every item of a task.

    `options` are asked of the model about itself; `in_words` are those of them that are also answered
    in words, and `others` the first of them about another assistant; `percent` is how likely the event is; `values` are
    the task's value questions. `apart` are asked in a stage of their own, for their log-odds and activations alone:
    about the input itself, and about another assistant where that is not among `others`; by context.
    """

    options: tuple[Elicitation, ...]
    in_words: tuple[Elicitation, ...]
    others: tuple[Elicitation, ...]
    percent: ValueQuestion
    values: tuple[ValueQuestion, ...]
    apart: Mapping[str, tuple[Elicitation, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, task: Task, paraphrases: int, words: Words = "full", other_contexts: bool = False
    ) -> Questions:
        """Both orders of the first paraphrases; the first paraphrase is also asked about another assistant.

        With `words` "short" only the first paraphrase is answered in words, and nothing is asked about another unless
        `other_contexts` asks for it.
        """
        options, first = task.elicitations[: 2 * paraphrases], task.elicitations[:2]
        full = words == "full"
        about_another = tuple(question.about_another() for question in first)
        apart = {
            **({} if full else {"other_framing": about_another}),
            "input_question": task.event.input_questions(),
        }
        return cls(
            options=options,
            in_words=options if full else first,
            others=about_another if full else (),
            percent=task.event.percent(),
            values=task.value_questions,
            apart=apart if other_contexts else {},
        )

    @property
    def contexts(self) -> dict[str, tuple[Elicitation, ...]]:
        """The contexts of METHODS section 1 beside the task and the self-prediction -> what is asked in them."""
        return {**({"other_framing": self.others} if self.others else {}), **self.apart}

    @property
    def captured(self) -> tuple[Elicitation, ...]:
        """Those whose activations and log-odds are read at the answer slot."""
        return (*self.options, *self.others)

    @property
    def all(self) -> list[tuple[Form, Elicitation | ValueQuestion]]:
        """Every question with its form."""
        return [
            *(("options", question) for question in self.captured),
            ("percent", self.percent),
            *(("value", question) for question in self.values),
        ]

    @property
    def answered(self) -> list[Elicitation | ValueQuestion]:
        """Those that are answered in words."""
        return [*self.in_words, *self.others, self.percent, *self.values]


@dataclass(frozen=True)
class SelfPrediction:
    """One item asked by one question.

    `form` is "options" (yes or no), "percent" (how likely) or "value" (in the task's own terms). `log_odds` is the
    log-odds of the option that predicts outcome 1 against the other, each summed over its spellings; `menu_mass` is
    the probability of both together; both are None where there are no options or no probabilities. `answer` is the
    generated text (None where none was asked for), `parsed` what it predicts (an outcome, a number from 0 to 100, a
    value), or None with the `reason` that it is unscored.
    """

    item: str
    task: str
    elicitation: str
    form: Form
    framing: Framing
    paraphrase: str
    order: str
    log_odds: float | None
    menu_mass: float | None
    answer: str | None
    parsed: Any
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The row of `self_predictions.jsonl`."""
        return asdict(self)


def option_spellings(elicitations: Sequence[Elicitation]) -> dict[str, tuple[str, ...]]:
    """Every option word of the elicitations with its spellings."""
    words = dict.fromkeys(word for e in elicitations for word in (e.yes, e.no))
    return {word: spellings(word) for word in words}


def generate_answers(
    run: Runner, asked: Mapping[Elicitation | ValueQuestion, Sequence[Prompt]]
) -> dict[str, list[str]]:
    """The generated answer of every question to each of its prompts, greedy, by the question's name.

    Questions with options are run apart from the others: a capture may have answered them already
    (`LocalRunner.complete_read`), and prompts are run together, all or none.
    """
    answers: dict[str, list[str]] = {}
    kinds = {question: (type(question).__name__, answer_length(question)) for question in asked}
    for kind in sorted(set(kinds.values())):
        together = [question for question in asked if kinds[question] == kind]
        prompts = [prompt for question in together for prompt in asked[question]]
        completed = iter(run.complete(prompts, max_new_tokens=kind[1], samples=1))
        for question in together:
            answers[question.name] = [next(completed)[0].text for _ in asked[question]]
    return answers


def answer_length(question: Elicitation | ValueQuestion) -> int:
    """Most tokens of its answer."""
    return question.max_new_tokens if isinstance(question, ValueQuestion) else ANSWER_TOKENS


def read_reports(
    items: Sequence[Item],
    questions: Questions,
    logprobs: Callable[[Elicitation], Options] | None,
    answers: Mapping[str, Sequence[str]],
) -> list[SelfPrediction]:
    """Join log-odds and generated answers, item by item; `logprobs` is None where there are no probabilities."""
    rows: dict[str, list[SelfPrediction]] = {item.id: [] for item in items}
    unanswered: list[None] = [None] * len(items)
    for form, question in questions.all:
        odds, mass = _log_odds(question, logprobs, len(items))
        said = answers.get(question.name, unanswered)
        for i, (item, answer) in enumerate(zip(items, said, strict=True)):
            parsed, reason = (None, NOT_ASKED) if answer is None else question.parse(answer)
            rows[item.id].append(
                SelfPrediction(
                    item=item.id,
                    task=item.task,
                    elicitation=question.name,
                    form=form,
                    framing=question.framing,
                    paraphrase=getattr(question, "paraphrase", ""),
                    order=getattr(question, "order", ""),
                    log_odds=odds[i],
                    menu_mass=mass[i],
                    answer=answer,
                    parsed=parsed,
                    reason=reason,
                )
            )
    return [row for item in items for row in rows[item.id]]


def read_options(
    items: Sequence[Item],
    questions: Sequence[Elicitation],
    logprobs: Callable[[Elicitation], Options],
) -> list[SelfPrediction]:
    """Log-odds of questions that are not answered in words, question by question."""
    return [
        SelfPrediction(
            item=item.id,
            task=item.task,
            elicitation=question.name,
            form="options",
            framing=question.framing,
            paraphrase=question.paraphrase,
            order=question.order,
            log_odds=odds,
            menu_mass=mass,
            answer=None,
            parsed=None,
            reason=NOT_ASKED,
        )
        for question in questions
        for item, odds, mass in zip(items, *_log_odds(question, logprobs, len(items)), strict=True)
    ]


def _log_odds(
    question: Elicitation | ValueQuestion,
    logprobs: Callable[[Elicitation], Options] | None,
    n_items: int,
) -> tuple[list[float | None], list[float | None]]:
    """Log-odds and menu mass of every item."""
    if logprobs is None or not isinstance(question, Elicitation):
        return [None] * n_items, [None] * n_items
    yes, no = logprobs(question)
    return (yes - no).tolist(), (np.exp(yes) + np.exp(no)).tolist()
