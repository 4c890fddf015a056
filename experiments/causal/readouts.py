"""What is read after an intervention: four log-odds at the first answer token, of four prompts about the same item.

The behavior is read off the task's own prompt, in which no question is asked; the reports off prompts that quote it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.asked import asked_prompts
from experiments.causal.subject import Subject
from experiments.elicitation import option_spellings
from experiments.records import read_rows
from experiments.run_folder import RunFolder
from experiments.tasks import Elicitation, Item
from hooks import Message, Prompt
from hooks.readout import option_tokens

_SMOOTHING = 1.0
_SHOWN_WORDS = 8


@dataclass(frozen=True)
class Slot:
    """A prompt, and the first answer tokens whose odds are read.

    Attributes:
        yes: tokens that stand for outcome 1.
        no: tokens that stand for outcome 0; None for all others.
    """

    prompt: Prompt
    yes: tuple[int, ...]
    no: tuple[int, ...] | None

    def log_odds(self, logits: Float[Tensor, "row vocabulary"]) -> Float[np.ndarray, " row"]:
        """Log of the summed odds of `yes` against `no`, in nats."""
        in_favor = logits[:, list(self.yes)].double().logsumexp(-1)
        if self.no is None:
            others = logits.clone()
            others[:, list(self.yes)] = -torch.inf
            against = others.logsumexp(-1).double()
        else:
            against = logits[:, list(self.no)].double().logsumexp(-1)
        return np.asarray((in_favor - against).cpu())


@dataclass(frozen=True)
class Readouts:
    """The slots of the chosen items.

    Attributes:
        slots: readout -> one slot an item.
        skipped: readout -> why it cannot be read.
        behavior: in words, what the behavior's log-odds are of.
    """

    slots: Mapping[str, tuple[Slot, ...]]
    skipped: Mapping[str, str]
    behavior: str


def readouts_of(subject: Subject, chosen: Sequence[int], folder: RunFolder) -> Readouts:
    """What is read of each chosen item; its questions are asked in one order of the options, the orders in turn.

    A preference for a position so cancels over items, and a movement, which is a difference within an item, does not
    know it in the first place.
    """
    items = [subject.items[index] for index in chosen]
    slots: dict[str, tuple[Slot, ...]] = {}
    skipped: dict[str, str] = {}
    openings = behavior_openings(subject, folder)
    if openings.tokens is None:
        skipped["behavior"] = openings.words
    else:
        slots["behavior"] = tuple(
            Slot(item.prompt(), openings.tokens[item.id], None) for item in items
        )
    own = subject.questions.options[:2]
    asked = {
        "self_report": own,
        "other_report": tuple(question.about_another() for question in own),
        "input_question": subject.task.event.input_questions(),
    }
    turns = order_of(len(items))
    for name, orders in asked.items():
        slots[name] = tuple(
            _asked(subject, item, orders[turns[place]]) for place, item in enumerate(items)
        )
    return Readouts(slots, skipped, openings.words)


def _asked(subject: Subject, item: Item, question: Elicitation) -> Slot:
    [prompt] = asked_prompts(question, [item], subject.config)
    spelled = option_spellings([question])
    tokens = option_tokens(subject.model.tokenizer, spelled)
    return Slot(prompt, tokens[question.yes], tokens[question.no])


@dataclass(frozen=True)
class Openings:
    """First tokens that stand for outcome 1.

    Attributes:
        words: what they are; without them, why there are none.
        tokens: item -> its tokens, of all scored items; None where nothing stands for the outcome.
    """

    words: str
    tokens: Mapping[str, tuple[int, ...]] | None


def behavior_openings(subject: Subject, folder: RunFolder) -> Openings:
    """What the behavior is read by: openings that the task names; else the beginnings of the right answers, where the
    outcome is to be right; else the first tokens of completions of outcome 1 that the others do not begin with.

    None of it says anything of a task whose outcome is not in what the model says to the item's own prompt.
    """
    task, items = subject.task, subject.items
    if task.acts_elsewhere:
        return Openings(
            f"task {task.name!r} has no first token to read: {task.acts_elsewhere}", None
        )
    if task.openings:
        tokens = first_tokens(subject, task.openings)
        if not tokens:
            return Openings(f"no opening of task {task.name!r} has a token of its own", None)
        words = "log-odds that the answer begins with " + ", ".join(task.openings)
        return Openings(words, {item.id: tokens for item in items})
    if task.outcome_is_right:
        by_item = {item.id: first_tokens(subject, item.answers) for item in items}
        without = [id for id, tokens in by_item.items() if not tokens]
        if without:
            return Openings(
                f"item {without[0]!r} has no right answer that begins with a token", None
            )
        return Openings("log-odds that the answer begins with that of the right one", by_item)
    return _learned_openings(subject, folder)


def first_tokens(subject: Subject, words: Sequence[str]) -> tuple[int, ...]:
    """The first tokens of words over their spellings; none for words that have no token of their own."""
    try:
        return option_tokens(subject.model.tokenizer, {"words": words})["words"]
    except ValueError:
        return ()


def _learned_openings(subject: Subject, folder: RunFolder) -> Openings:
    """First tokens, not words: "I'm" and "Indeed" may begin with the token of "I", and tell nothing apart then."""
    name = subject.task.name
    outcomes = {
        item.id: int(outcome) for item, outcome in zip(subject.items, subject.outcome, strict=True)
    }
    begun: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for row in read_rows(folder.behavior):
        if row["item"] in outcomes:
            for completion in row["completions"]:
                begun[outcomes[row["item"]]].update(completion.split()[:1])
    if not (begun[0] and begun[1]):
        return Openings(f"task {name!r} names no openings, and keeps no completions", None)
    tokens_of = {word: first_tokens(subject, [word]) for word in begun[0] | begun[1]}
    counts: tuple[Counter[int], Counter[int]] = Counter(), Counter()
    for count, of_words in zip(counts, begun, strict=True):
        for word, n in of_words.items():
            count.update(dict.fromkeys(tokens_of[word], n))
    totals = [sum(of_words.values()) + _SMOOTHING for of_words in begun]
    telling = {
        token
        for token, n in counts[1].items()
        if n > 1 and n / totals[1] > 2 * (counts[0][token] + _SMOOTHING) / totals[0]
    }
    if not telling:
        reason = (
            f"the first tokens of what the model says in task {name!r} do not tell its outcomes apart; "
            "a task may name openings"
        )
        return Openings(reason, None)
    shown = [word for word, _ in begun[1].most_common() if telling & set(tokens_of[word])]
    words = "log-odds that the answer begins as those of outcome 1 do: "
    return Openings(
        words + ", ".join(shown[:_SHOWN_WORDS]),
        dict.fromkeys(outcomes, tuple(sorted(telling))),
    )


def choose_items(subject: Subject, half_of: np.ndarray, n_items: int, seed: int) -> list[int]:
    """Items to measure, such that any first so many are balanced over halves and outcomes; new groups come first."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(subject.items))
    queues: dict[tuple[int, int], list[int]] = {}
    seen: set[str] = set()
    later: list[int] = []
    for index in order:
        if subject.groups[index] in seen:
            later.append(index)
        else:
            seen.add(subject.groups[index])
            queues.setdefault((half_of[index], subject.outcome[index]), []).append(index)
    for index in later:
        queues.setdefault((half_of[index], subject.outcome[index]), []).append(index)
    shortest = min(len(queue) for queue in queues.values())
    per_queue = min(shortest, n_items // len(queues))
    return [int(queue[turn]) for turn in range(per_queue) for _, queue in sorted(queues.items())]


def order_of(n: int) -> Int[np.ndarray, " item"]:
    """In which order of its options each of the first measured items is asked: the orders alternate every four items,
    one of each half and outcome."""
    order: np.ndarray = np.arange(n) // 4 % 2
    return order


def behind_system(messages: tuple[Message, ...], system: str) -> tuple[Message, ...]:
    """A conversation with a system message added; one that is there comes before it in the same message."""
    before, rest = "", messages
    if messages[0]["role"] == "system":
        before, rest = messages[0]["content"] + "\n\n", messages[1:]
    turn: Message = {"role": "system", "content": before + system}
    return (turn, *rest)
