"""The ranking form of difficulty: in which order would four questions stand, the wrong ones last, by tokens used?

Follows the difficulty task of the Self-Execution Benchmark (2508.12277) on questions of our own: the questions of a set
are ordered by (answered wrong, tokens used), the shortest right answer first. Unlike there, no question shows its
options' right one, equal questions stay equal, and the words are scored against the best constant order.

An item is one question of a set of four, which the probe reads alone; the outcome is whether more of the other three
stand before it than after it. That is balanced by construction, and no property of the question alone: a probe can
know how hard the question is, not how hard its neighbors are. Questions with the same outcome and the same number of
tokens stand level; an item with as many before it as after it is unscored. A set joins four groups of the difficulty
task (one question of each, for the two forms of a fact answer each other) and two of its questions are items, so that a
run of 60 items has 30 groups.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from experiments.tasks.answers import judge_answer
from experiments.tasks.base import Judgment, Observation, Task
from experiments.tasks.counterfactual.drafts import adopt_questions
from experiments.tasks.counterfactual.pool import Asked
from experiments.tasks.difficulty import DifficultyTask, components
from experiments.tasks.forms import Ranking
from experiments.tasks.item import Item, user
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event, ValueQuestion
from hooks import Completion, Prompt

_SIZE = 4
_ITEMS_PER_SET = 2
_SEED = 0

Place = tuple[bool, int]
"""What a question is ordered by: whether its answer was wrong, and the tokens used."""


class RankingTask(Task):
    """Which of four questions would I find harder?"""

    name: ClassVar[str] = "ranking"
    summary: ClassVar[str] = (
        "four questions by the tokens used, wrong answers last: is this one in the second half?"
    )
    behavior: ClassVar[str] = (
        "takes longer over the question, or gets it wrong, more than over most of three others"
    )
    max_new_tokens: ClassVar[int] = 24
    needs_answers: ClassVar[bool] = True
    acts_elsewhere: ClassVar[str] = (
        "the outcome compares the answer with those to three other questions"
    )
    event: ClassVar[Event] = Event(
        setting="{prompt}\n\nPut these four questions in order: first those that <you> would answer right, from the "
        "shortest answer to the longest, and last those that <you> would answer wrong.",
        question="Would question {focal} be in the second half of that order",
        yes="Question {focal} would be in the second half.",
        no="Question {focal} would be in the first half.",
    )
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="order",
            template="{prompt}\n\nOrder these four questions by how many tokens <you> would use to answer each, from "
            "the fewest to the most, but put those that <you> would get wrong last. Answer with the four numbers only.",
            form=Ranking(_SIZE),
            max_new_tokens=16,
        ),
    )

    def items(self) -> list[Item]:
        """Two items of each of 56 sets, in the order of the difficulty task's groups."""
        firsts = {item.group: item for item in reversed(DifficultyTask().items())}
        return _items(list(firsts.values())[::-1])

    def adopt(self, items: Sequence[Item]) -> list[Item]:
        """Sets of four of a user's own questions, cut from them group by group; what is left over is not asked.

        A question with choices is asked as those of the counterfactual tasks are, its choices behind it.

        Raises:
            ValueError: fewer than four questions, or one that is a conversation.
        """
        for item in items:
            if len(item.messages) != 1:
                raise ValueError(
                    f"messages: item {item.id!r} of task {self.name!r} has {len(item.messages)}; "
                    "give each question as 'text'"
                )
        if len(items) < _SIZE:
            raise ValueError(
                f"items: {len(items)} questions for task {self.name!r}, which orders four; give more"
            )
        place = {group: i for i, group in enumerate(dict.fromkeys(item.group for item in items))}
        shown = [adopt_questions([one])[0] if one.meta.get("choices") else one for one in items]
        return _items(sorted(shown, key=lambda item: place[item.group]))

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Answer all four questions of every item's set; sample j of one is ordered among samples j of the others."""
        asked = [(item.id, question) for item in items for question in item.meta["questions"]]
        found = run.complete(
            [Prompt.chat(id, question["text"]) for id, question in asked],
            max_new_tokens=self.max_new_tokens,
        )
        answered = [
            _places(question, completions)
            for (_, question), completions in zip(asked, found, strict=True)
        ]
        observed = []
        for i, item in enumerate(items):
            of_set = slice(_SIZE * i, _SIZE * (i + 1))
            focal = int(item.fields["focal"]) - 1
            judgments = tuple(
                half_of(places, focal) for places in zip(*answered[of_set], strict=True)
            )
            order = measured_order([_usual(places) for places in answered[of_set]])
            observed.append(Observation(found[of_set][focal], judgments, {"order": order}))
        return observed


def half_of(places: Sequence[Place], focal: int) -> Judgment:
    """Whether more of the other questions stand before the focal one than after it."""
    before = sum(place < places[focal] for place in places)
    after = sum(place > places[focal] for place in places)
    if before == after:
        return Judgment(None, "level", reason="as many questions before it as after it")
    label = "second half" if before > after else "first half"
    return Judgment(int(before > after), label)


def measured_order(places: Sequence[tuple[bool, float]]) -> list[list[int]]:
    """The questions, numbered from 1, in order, those that stand level together.

    The published benchmark puts these in the order of their numbers, and so favors who repeats the list.
    """
    return [
        [i + 1 for i, place in enumerate(places) if place == level] for level in sorted(set(places))
    ]


def _places(question: Mapping[str, Any], completions: Iterable[Completion]) -> list[Place]:
    return [(not _is_right(question, one.text), one.n_tokens) for one in completions]


def _is_right(question: Mapping[str, Any], answer: str) -> bool:
    text, right, choices = question["text"], question["answers"], question["choices"]
    if question["lists_choices"]:
        return Asked(user(text), tuple(choices)).choice(answer)[0] in right
    return judge_answer(text, right, answer, choices).outcome == 1


def _usual(places: Sequence[Place]) -> tuple[bool, float]:
    """The place over all samples: wrong in at least half of them, and the mean number of tokens."""
    wrong = sum(is_wrong for is_wrong, _ in places)
    return 2 * wrong >= len(places), sum(tokens for _, tokens in places) / len(places)


def _items(questions: Sequence[Item]) -> list[Item]:
    """The items of all sets, cut from the questions in order; sets that share a group are one group."""
    sets = [questions[i : i + _SIZE] for i in range(0, len(questions) - _SIZE + 1, _SIZE)]
    joined = components([[question.group for question in members] for members in sets])
    return [
        item
        for number, (members, group) in enumerate(zip(sets, joined, strict=True), start=1)
        for item in _set(members, number, f"ranking-{group + 1:04d}")
    ]


def _set(members: Sequence[Item], number: int, group: str) -> list[Item]:
    """The items of one set: its questions in a seeded order, two of them being asked about."""
    generator = random.Random(f"{_SEED}/{number}")
    asked = generator.sample(list(members), len(members))
    questions = [
        {
            "text": member.text,
            "answers": list(member.answers),
            "choices": list(member.meta.get("choices", ())),
            "lists_choices": "stem" in member.meta,
        }
        for member in asked
    ]
    right = ", ".join(f"{i}: {member.answers[0]}" for i, member in enumerate(asked, start=1))
    return [
        Item(
            id=f"ranking-{number:04d}{letter}",
            task=RankingTask.name,
            group=group,
            stratum=asked[focal].stratum,
            messages=asked[focal].messages,
            answers=(right,),
            meta={
                **{
                    name: asked[focal].meta[name]
                    for name in ("entity", "type")
                    if name in asked[focal].meta
                },
                "questions": questions,
            },
            fields={
                "prompt": "\n".join(f"{i}. {q['text']}" for i, q in enumerate(questions, start=1)),
                "focal": str(focal + 1),
            },
        )
        for letter, focal in zip("ab", generator.sample(range(_SIZE), _ITEMS_PER_SET), strict=True)
    ]
