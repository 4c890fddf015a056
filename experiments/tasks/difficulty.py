"""The difficulty task: short questions with checkable answers, half of them right for a small model.

Items are made from tables of facts (`data/difficulty.yaml`), each fact asked in two of its stratum's
forms. Forms, strata and tables were chosen by the embedded model's accuracy and by balance alone (strata of
mixed outcome, about half right overall): whole forms and strata were dropped, and regular plurals, which it
nearly always gets right, gave way to irregular ones. No probe, text classifier or self-prediction was
consulted. Sequences, calendar arithmetic, counting of letters, spelling backwards and translation are
absent, because that model seldom gets them right; accuracies of another model are not balanced by design.
Paraphrases of the self-prediction were chosen by the probability mass on their options.

An item's group is the connected component of the entities that it shares with others (`meta["shares"]`:
the country, the word, the pair of operands). Wordings and answer categories recur across groups:
`meta["entity"]` names the kind of question, so that a second split can hold out whole kinds.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import yaml
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from experiments.tasks.answers import judge_answer
from experiments.tasks.base import CompletionTask, Judgment
from experiments.tasks.forms import Number
from experiments.tasks.interleaving import interleaved
from experiments.tasks.item import Item
from experiments.tasks.wording import Elicitation, Event, ValueQuestion
from hooks import Completion

Fact = dict[str, tuple[str, ...]]
"""Field name -> equally right values, the first one being what a question uses."""

_TABLES = Path(__file__).with_name("data") / "difficulty.yaml"
_SEED = 0
_QUOTE = '"{prompt}"\n\n'


def components(keys: Sequence[Sequence[Hashable]]) -> list[int]:
    """Connected component of each row, where two rows that share a key are connected.

    Components are numbered from 0 in order of first appearance; a row without keys is a component of its own.
    """
    pairs = [(row, key) for row, row_keys in enumerate(keys) for key in row_keys]
    column = {key: i for i, key in enumerate(dict.fromkeys(key for _, key in pairs))}
    places = ([row for row, _ in pairs], [column[key] for _, key in pairs])
    holds = csr_array((np.ones(len(pairs)), places), shape=(len(keys), len(column)))
    labels = connected_components(holds @ holds.T, directed=False)[1]
    return [int(label) for label in labels]


def _arithmetic(fact: Fact) -> dict[str, object]:
    a, b = int(fact["a"][0]), int(fact["b"][0])
    low, high = sorted((a, b))
    return {
        "sum": a + b,
        "difference": a - b,
        "product": a * b,
        "operands": f"{low},{high}",
    }


def _letters(fact: Fact) -> dict[str, object]:
    word = fact["word"][0]
    return {"first": word[0], "last": word[-1]}


_DERIVED: Mapping[str, Callable[[Fact], dict[str, object]]] = {
    "sums": _arithmetic,
    "products": _arithmetic,
    "spelling": _letters,
}


def _facts(stratum: str, table: Mapping[str, Any]) -> Iterator[Fact]:
    for row in table["facts"]:
        values = (value if isinstance(value, list) else [value] for value in row)
        fact: Fact = {
            field: tuple(map(str, value))
            for field, value in zip(table["fields"], values, strict=True)
        }
        derived = _DERIVED[stratum](fact) if stratum in _DERIVED else {}
        yield fact | {field: (str(value),) for field, value in derived.items()}


def _stratum_items(stratum: str, table: Mapping[str, Any]) -> Iterator[Item]:
    """Items without final ids and groups: fact i is asked in `per_fact` forms from the i-th on."""
    facts = list(_facts(stratum, table))
    random.Random(f"{_SEED}/{stratum}").shuffle(facts)
    forms = table["forms"]
    for i, fact in enumerate(facts):
        used = {field: values[0] for field, values in fact.items()}
        for j in range(table["per_fact"]):
            kind, wording, answer, *options = forms[(i + j) % len(forms)]
            text = wording.format(**used)
            yield Item(
                id="",
                task="difficulty",
                group="",
                stratum=stratum,
                messages=({"role": "user", "content": text},),
                answers=fact[answer],
                meta={
                    "entity": kind,
                    "type": " ".join(text.split()[:2]).strip(",:").lower(),
                    "shares": [f"{field}:{used[field]}" for field in table["shares"]],
                    "choices": [used[option] for option in options[0]] if options else [],
                },
            )


def _in_order(groups: Mapping[int, list[Item]]) -> list[list[Item]]:
    """Groups in an order of which any prefix holds each stratum in about its overall share."""
    by_stratum: dict[str, list[list[Item]]] = defaultdict(list)
    for items in groups.values():
        by_stratum[items[0].stratum].append(items)
    return [items for _, items in interleaved(by_stratum)]


def _in_both_orders(
    paraphrase: str, question: str, right: str, wrong: str
) -> tuple[Elicitation, Elicitation]:
    """A paraphrase whose option words are named behind the question, in one order and in the other."""
    return (
        Elicitation(
            name=f"{paraphrase}/right_first",
            paraphrase=paraphrase,
            order="right_first",
            template=f"{_QUOTE}{question} {right} or {wrong.lower()}?",
            yes=right,
            no=wrong,
        ),
        Elicitation(
            name=f"{paraphrase}/wrong_first",
            paraphrase=paraphrase,
            order="wrong_first",
            template=f"{_QUOTE}{question} {wrong} or {right.lower()}?",
            yes=right,
            no=wrong,
        ),
    )


def _letters_in_both_orders(question: str) -> tuple[Elicitation, Elicitation]:
    """The lettered paraphrase: the meanings swap letters, so that a liking for "A" cancels over the orders."""
    return (
        Elicitation(
            name="letters/right_first",
            paraphrase="letters",
            order="right_first",
            template=f"{_QUOTE}{question}\nA: right\nB: wrong",
            yes="A",
            no="B",
        ),
        Elicitation(
            name="letters/wrong_first",
            paraphrase="letters",
            order="wrong_first",
            template=f"{_QUOTE}{question}\nA: wrong\nB: right",
            yes="B",
            no="A",
        ),
    )


class DifficultyTask(CompletionTask):
    """Will my answer to this question be right?"""

    name: ClassVar[str] = "difficulty"
    summary: ClassVar[str] = "short questions with checkable answers: will my answer be right?"
    behavior: ClassVar[str] = "answers the question correctly"
    max_new_tokens: ClassVar[int] = 16
    needs_answers: ClassVar[bool] = True
    outcome_is_right: ClassVar[bool] = True
    event: ClassVar[Event] = Event(
        setting=_QUOTE.rstrip(),
        question="Would <your> answer to this be right",
        yes="<Your> answer would be right.",
        no="<Your> answer would be wrong.",
        about_input=_QUOTE + "Is this question easy",
    )
    elicitations: ClassVar[tuple[Elicitation, ...]] = (
        *_letters_in_both_orders("Would <your> answer be right? Reply with one letter, A or B."),
        *_in_both_orders("yes_no", "Will <you> get this right?", "Yes", "No"),
        *_in_both_orders(
            "true_false", "<Your> answer to this question would be right:", "True", "False"
        ),
        *_in_both_orders(
            "expect", "Do you think that <you> would answer this correctly?", "Yes", "No"
        ),
    )

    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="tokens",
            template=_QUOTE
            + "How many tokens would <your> answer to this have? Answer with a number from 1 to 16, where "
            "16 stands for 16 or more.",
            form=Number(1, 16),
        ),
    )

    def items(self) -> list[Item]:
        """All built-in items, whole groups together, strata interleaved."""
        tables = yaml.safe_load(_TABLES.read_text(encoding="utf-8"))
        drafts = [item for name, table in tables.items() for item in _stratum_items(name, table)]
        groups: dict[int, list[Item]] = defaultdict(list)
        for component, item in zip(
            components([d.meta["shares"] for d in drafts]), drafts, strict=True
        ):
            groups[component].append(item)
        return [
            Item(
                **{
                    **vars(item),
                    "id": f"difficulty-{number:04d}{letter}",
                    "group": f"difficulty-{number:04d}",
                }
            )
            for number, members in enumerate(_in_order(groups), start=1)
            for letter, item in zip("abcdefgh", members, strict=False)
        ]

    def judge(self, items: Sequence[Item], completions: Sequence[str]) -> list[Judgment]:
        """Judge one completion an item by the rules of `experiments.tasks.answers`."""
        return [
            judge_answer(item.text, item.answers, completion, item.meta.get("choices", ()))
            for item, completion in zip(items, completions, strict=True)
        ]

    def values(self, item: Item, completions: Sequence[Completion]) -> Mapping[str, Any]:
        """The number of tokens used, the mean of the samples."""
        return {"tokens": sum(one.n_tokens for one in completions) / len(completions)}
