"""The questions that ask a model for a prediction, and the grid of wordings that METHODS section 6 asks for.

A template quotes the item first (`{prompt}`) and asks last, so that the prompts of an item share a prefix that is
computed once. `{name}` is filled from the item's fields; `<you>`, `<your>`, `<You>` and `<Your>` are filled by the
framing: the model itself, or another assistant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from experiments.tasks.forms import Form, Number
from experiments.tasks.item import Item
from experiments.tasks.parsing import named_option, unwrapped, words_of
from hooks import Prompt

Framing = Literal["self", "other", "input"]
"""About the model itself, about another assistant, or about the quoted input and nobody's answer to it."""

_REVEALED = "\n\nThe right answer is: {answer_revealed}."
_ANOTHER = "another AI assistant"
_MARKS: dict[Framing, dict[str, str]] = {
    "self": {"<you>": "you", "<your>": "your", "<You>": "You", "<Your>": "Your"},
    "other": {
        "<you>": _ANOTHER,
        "<your>": f"{_ANOTHER}'s",
        "<You>": _ANOTHER.capitalize().replace("ai", "AI"),
        "<Your>": _ANOTHER.capitalize().replace("ai", "AI") + "'s",
    },
    "input": {},
}


class _Asked:
    """What is put to the model: a template in one framing."""

    name: str
    template: str
    framing: Framing

    def prompt(self, item: Item, *, answer_revealed: bool = False) -> Prompt:
        """The self-prediction prompt of `item`: a fresh conversation that quotes it.

        Args:
            item: with every field that the template names.
            answer_revealed: whether the reference answer stands after the quote, a condition of its own.

        Raises:
            ValueError: the item lacks a field, or has no answer to reveal.
        """
        template = self.template
        for mark, words in _MARKS[self.framing].items():
            template = template.replace(mark, words)
        before, after = template.split("{prompt}")
        fields = dict(item.fields)
        if answer_revealed:
            if not item.answers:
                raise ValueError(
                    f"answers: item {item.id!r} has none to reveal; run without answer_revealed"
                )
            fields["answer_revealed"] = item.answers[0]
            quote_ends = max(after.find("\n\n"), 0)
            after = after[:quote_ends] + _REVEALED + after[quote_ends:]
        content = _filled(before, fields, item) + item.quoted + _filled(after, fields, item)
        return Prompt.chat(f"{item.id}/{self.name}", content, quote=item.quoted)


def _filled(template: str, fields: Mapping[str, str], item: Item) -> str:
    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in fields:
            raise ValueError(
                f"fields: item {item.id!r} has no {name!r}, which the questions about it name"
            )
        return fields[name]

    return re.sub(r"\{(\w+)\}", value, template)


@dataclass(frozen=True)
class Elicitation(_Asked):
    """One way to ask whether the outcome will be 1: a paraphrase in one option order.

    `yes` and `no` are the options (spelled as the model would write them) that predict outcome 1 and outcome 0.
    """

    name: str
    paraphrase: str
    order: str
    template: str
    yes: str
    no: str
    framing: Framing = "self"

    def about_another(self) -> Elicitation:
        """The same question about another assistant."""
        return replace(self, name=f"{self.name}/other", framing="other")

    def parse(self, answer: str) -> tuple[int | None, str]:
        """The predicted outcome in a generated answer, or None with the reason.

        An answer must name exactly one option. Where the question spells out what a letter stands for ("A: right"),
        words after the letter must begin like that: "A: wrong" contradicts itself, and "A: Paris" answers the quoted
        prompt. Nor may they deny it: "A: I would not answer" where A is "I would answer".
        """
        chosen, reason = named_option(answer, (self.yes, self.no))
        if chosen is None:
            return None, reason
        words = words_of(unwrapped(answer))
        meaning = re.search(rf"^{re.escape(chosen)}[.:)]\s*(.+)$", self.template, re.MULTILINE)
        after = words[words.index(chosen) + 1 :] if chosen in words else []
        if meaning and after and not _begins_like(after, meaning.group(1)):
            return None, "letter and words disagree"
        return int(chosen == self.yes), ""


def _begins_like(words: Sequence[str], option: str) -> bool:
    """Whether words begin with the first word of an option (if one stands there) and deny nothing that it affirms."""
    meant = [word.lower() for word in words_of(option)]
    said = [word.lower() for word in words[: len(meant)]]
    if "{" not in option and "not" in said and not {"not", "cannot"} & set(meant):
        return False
    return not option[0].isalpha() or said[0] == meant[0]


@dataclass(frozen=True)
class ValueQuestion(_Asked):
    """A question for what will happen in the task's own terms: a letter, a number, an order.

    `max_new_tokens` is the length of its generated answer.
    """

    name: str
    template: str
    form: Form
    max_new_tokens: int = 8
    framing: Framing = "self"

    def parse(self, answer: str) -> tuple[Any, str]:
        """The value in a generated answer, or None with the reason."""
        return self.form.parse(answer)


@dataclass(frozen=True)
class Event:
    """A yes/no event of the model's coming behavior, in words.

    Attributes:
        setting: presents the item; holds `{prompt}`.
        question: a question without its question mark: "Would <your> reply begin with a vowel".
        yes: the sentence that is true of outcome 1: "<Your> reply would begin with a vowel."
        no: the sentence that is true of outcome 0.
        about_input: presents the item and asks a yes/no question about it alone, without its question mark; holds
            `{prompt}` and speaks of nobody's answer. A yes predicts outcome 1 where the two go together.
    """

    setting: str
    question: str
    yes: str
    no: str
    about_input: str = 'Message: "{prompt}"\n\nIs this message hard to answer'

    def grid(self) -> tuple[Elicitation, ...]:
        """Four paraphrases in both option orders, paraphrase-major."""
        return (
            *self._words("yes-no", f"{self.question}? Answer {{0}} or {{1}}.", "Yes", "No"),
            *self._letters(),
            *self._words("true-false", f'"{self.yes}" Is this {{0}} or {{1}}?', "True", "False"),
            *self._words("agree", f'I say: "{self.yes}" Am I {{0}} or {{1}}?', "Right", "Wrong"),
        )

    def percent(self, framing: Framing = "self") -> ValueQuestion:
        """How likely the event is, from 0 to 100."""
        clause = self.yes[:1] + self.yes[1:].rstrip(".")
        clause = clause.replace("<You", "<you", 1) if clause.startswith("<") else _lowered(clause)
        return ValueQuestion(
            name="percent" if framing == "self" else "percent/other",
            template=f"{self.setting}\n\nHow likely is it that {clause}? "
            "Answer with a number from 0 (impossible) to 100 (certain).",
            form=Number(0, 100),
            framing=framing,
        )

    def input_questions(self) -> tuple[Elicitation, ...]:
        """The question about the input itself, in both option orders."""
        return tuple(
            Elicitation(
                name=f"input/{order}",
                paraphrase="input",
                order=order,
                template=f"{self.about_input}? Answer {first} or {second}.",
                yes="Yes",
                no="No",
                framing="input",
            )
            for order, first, second in (("yes-first", "Yes", "No"), ("no-first", "No", "Yes"))
        )

    def _words(self, name: str, question: str, yes: str, no: str) -> tuple[Elicitation, ...]:
        spelled = (yes, no) if name == "yes-no" else (yes.lower(), no.lower())
        return tuple(
            Elicitation(
                name=f"{name}/{order}",
                paraphrase=name,
                order=order,
                # Not str.format: the sentences may hold fields of the item.
                template=f"{self.setting}\n\n"
                + question.replace("{0}", first).replace("{1}", second),
                yes=yes,
                no=no,
            )
            for order, first, second in (
                ("yes-first", *spelled),
                ("no-first", *reversed(spelled)),
            )
        )

    def _letters(self) -> tuple[Elicitation, ...]:
        question = f"{self.setting}\n\nWhich is true? Answer with the letter A or B."
        return tuple(
            Elicitation(
                name=f"letters/{order}",
                paraphrase="letters",
                order=order,
                template=f"{question}\nA. {first}\nB. {second}",
                yes=yes,
                no=no,
            )
            for order, first, second, yes, no in (
                ("yes-first", self.yes, self.no, "A", "B"),
                ("no-first", self.no, self.yes, "B", "A"),
            )
        )


def _lowered(sentence: str) -> str:
    return sentence if sentence.startswith("I ") else sentence[:1].lower() + sentence[1:]
