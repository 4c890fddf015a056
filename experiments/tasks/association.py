"""The association task: will this word be among the five that the model gives for a target?

An item is a target and one option word. The model lists five words for the target in a conversation that never names an
option, once a target; the probe reads that conversation with the option named before the request, and the words are
asked about the request with the option named after it. Example turns stand before the request, because a small model
lists nothing but the target without them; they are the same for every item.

How the items were chosen: some 340 targets, and about four words for each, were written down without regard to the
model. It was then run with the request of this task and with another one. For each target one option (now and then two)
was taken from the words that it gave, by a matching that uses no word twice, and the rest from those that it gave to
the other request alone and from ours, so that its vocabulary is no sign of the outcome by itself. In none of their
forms do two words recur among all targets, options and examples, but for a target that an example names. Outcomes and
balance alone were used, never a probe, a text classifier or a self-prediction: that a third of the options are named is
a design, and no finding. The request and the examples were chosen, among some thirty, by the share of replies that list
words and by how many they list beside the target.

A group is a target; a second split can hold out whole topics (`meta["entity"]`). In a user's own file words recur:
targets of which one is an option of the other are one group, and the second split holds out whole options.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import yaml

from experiments.tasks.base import Judgment, Observation, Task
from experiments.tasks.difficulty import components
from experiments.tasks.interleaving import interleaved
from experiments.tasks.item import Item
from experiments.tasks.runner import Runner
from experiments.tasks.word_lists import listed_words, names, nearly_names
from experiments.tasks.wording import Event
from hooks import Completion, Message, Prompt

N_WORDS = 5
_DATA = Path(__file__).with_name("data") / "association.yaml"
_NO_LIST = "no list of words"


def five_words(completion: Completion) -> list[str]:
    """The first five entries of the list that a completion holds, `[]` where it holds none."""
    return listed_words(completion.text, finished=completion.finished)[:N_WORDS]


def five_are_listed(text: str) -> bool:
    """Whether a completion that begins like this has five whole entries."""
    return len(listed_words(text, finished=False)) >= N_WORDS


class AssociationTask(Task):
    """Will I give this word?"""

    name: ClassVar[str] = "association"
    summary: ClassVar[str] = "five words for a target: will this word be among them?"
    behavior: ClassVar[str] = "names the word among five for the target"
    max_new_tokens: ClassVar[int] = 24
    acts_elsewhere: ClassVar[str] = (
        "the words are listed in a conversation that does not name the option"
    )
    event: ClassVar[Event] = Event(
        setting="Request: {prompt}",
        question='Would the word "{option}" be among the five words of <your> reply',
        yes='The word "{option}" would be among the five words of <your> reply.',
        no='The word "{option}" would not be among the five words of <your> reply.',
        about_input='Request: {prompt}\n\nIs the word "{option}" close in meaning to a word of this request',
    )

    def items(self) -> list[Item]:
        """All built-in items, the options of a target together, topics interleaved."""
        topics: Mapping[str, Mapping[str, list[str]]] = _data()["topics"]
        in_order = interleaved({topic: list(targets.items()) for topic, targets in topics.items()})
        return [
            item
            for topic, (target, options) in in_order
            for item in _items_of(target, options, f"association-{target}", topic, entity=topic)
        ]

    def read_items(self, path: Path) -> list[Item] | None:
        """Items from a JSON object that maps each target to its option words, as in the Self-Execution Benchmark.

        Empty options and those that occur twice for a target (whatever their case) are left out. Groups of few targets
        come first.

        Raises:
            ValueError: the file is one JSON value, and no such object.
        """
        if path.suffix.lower() != ".json":
            return None
        options = _read_options(path)
        lowered = {target.lower() for target in options}
        number = components(
            [
                [target.lower(), *({word.lower() for word in words} & lowered)]
                for target, words in options.items()
            ]
        )
        size = Counter(number)
        # Small groups first: a short run takes whole groups from the start, and one of fifty targets would end it.
        in_order = sorted(
            zip(options.items(), number, strict=True), key=lambda row: (size[row[1]], row[1])
        )
        return [
            item
            for (target, words), group in in_order
            for item in _items_of(target, words, f"association-{group:04d}", "all")
        ]

    def adopt(self, items: Sequence[Item]) -> list[Item]:
        """Items of `read_items`; a row of a table names no option."""
        for item in items:
            if "option" not in item.fields:
                raise ValueError(
                    f"items: row {item.id!r} names no option word; {_FORMAT} in a .json file"
                )
        return list(items)

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """List five words for every target, and look for each of its options there."""
        listed = run.complete(
            [Prompt(item.id, messages=_conversation(item.fields["target"])) for item in items],
            max_new_tokens=self.max_new_tokens,
            decided=[five_are_listed] * len(items),
        )
        return [
            Observation(own, tuple(judge_option(one, item.fields["option"]) for one in own))
            for item, own in zip(items, listed, strict=True)
        ]


def judge_option(completion: Completion, option: str) -> Judgment:
    """Whether a completion lists an option.

    The published rule decides: lower-cased and letter for letter among the first five entries. The second judge also
    takes another form of the word (a plural, "sandy" for "sand"); their agreement shows how much spelling matters.
    """
    entries = five_words(completion)
    if not entries:
        return Judgment(None, "unscored", {"exact": "unscored", "stem": "unscored"}, _NO_LIST)
    exact, near = names(entries, option), nearly_names(entries, option)
    label = {True: "named", False: "absent"}
    return Judgment(int(exact), label[exact], {"exact": label[exact], "stem": label[near]})


def _items_of(
    target: str, options: Sequence[str], group: str, topic: str, entity: str | None = None
) -> Iterator[Item]:
    request = _request(target)
    for number, option in enumerate(dict.fromkeys(word.lower() for word in options), start=1):
        yield Item(
            id=f"association-{target.lower()}-{number}",
            task="association",
            group=group,
            stratum=topic,
            messages=_conversation(target, f'Consider the word "{option}".\n\n'),
            meta={"entity": entity or option},
            fields={"prompt": request, "target": target, "option": option},
        )


def _conversation(target: str, before: str = "") -> tuple[Message, ...]:
    """The example turns and the request for `target`, with `before` in front of it."""
    turns: list[Message] = []
    for example, words in _data()["examples"].items():
        turns += [
            {"role": "user", "content": _request(example)},
            {"role": "assistant", "content": ", ".join(words)},
        ]
    return (*turns, {"role": "user", "content": before + _request(target)})


def _request(target: str) -> str:
    request: str = _data()["request"]
    return request.replace("{target}", target)


def _read_options(path: Path) -> dict[str, list[str]]:
    try:
        options = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"items: {path} is no JSON ({error}); {_FORMAT}") from None
    if not isinstance(options, dict) or not options:
        raise ValueError(f"items: {path} holds no target; {_FORMAT}")
    for target, words in options.items():
        texts = words if isinstance(words, list) else []
        if (
            not target.strip()
            or not all(isinstance(w, str) for w in texts)
            or not any(w.strip() for w in texts)
        ):
            raise ValueError(
                f"items: target {target!r} in {path} has options {words!r:.60}; {_FORMAT}"
            )
    # The published file has empty options.
    return {target: [w.strip() for w in words if w.strip()] for target, words in options.items()}


_FORMAT = 'give one object of targets and their option words, such as {"lion": ["mane", "cat"]}'


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are unique but for case; JSON itself would keep the last one without a word."""
    seen: dict[str, str] = {}
    for key, _ in pairs:
        if key.lower() in seen:
            raise ValueError(f"items: target {key!r} occurs twice; put its options in one list")
        seen[key.lower()] = key
    return dict(pairs)


@cache
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.safe_load(_DATA.read_text(encoding="utf-8"))
    return data
