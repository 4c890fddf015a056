"""Which option an answer chooses: pure rules over strings, no model.

The choice is the first option that the answer names: in whole words, without regard to case, by its text or, where the
prompt listed the options with letters or numbers, by its mark ("B", "(B)", "2."). Passed over are a denied option ("not
a horse", "I do not think that it is a horse", "rather than gold") and a run of several options with nothing but glue
between them ("A. eagle B. horse", "dolphin and salmon"), for who repeats the list has chosen nothing. An answer that
names no option otherwise is unreadable and has no outcome; nothing else about it (whether it goes on to contradict
itself) is judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_GLUE = re.compile(
    r"[^\w.!?]*(?:(?:and|or|vs|versus|the|an?|is|both|options?)\b[^\w.!?]*|[A-D1-4][.):]\s*)*",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:\b(?:not|never|neither|nor|than|unlike|except)|n't)\s+"
    r"(?:(?:think|believe|that|it|is|it's|be|an?|the)\s+)*\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Mention:
    start: int
    end: int
    option: int


def chosen_option(
    answer: str, options: Sequence[str], marks: Sequence[str] = ()
) -> tuple[int | None, str]:
    """The index of the option that an answer chooses, or None with the reason.

    `marks` are the letters or numbers under which the prompt listed the options, none where it did not.
    """
    run = _choosing_run(answer, options, marks)
    if run:
        return run[0].option, ""
    if not answer.strip():
        return None, "empty answer"
    return None, "names no single option"


def choice_is_settled(answer: str, options: Sequence[str], marks: Sequence[str] = ()) -> bool:
    """Whether no further token can change what `chosen_option` reads in an answer that is still being written."""
    run = _choosing_run(answer, options, marks)
    if not run:
        return False
    glued = _GLUE.match(answer, run[-1].end)
    after = answer[glued.end() if glued else run[-1].end :]
    # As long as an option with its mark may still be coming, the choice may turn out to be a list.
    return len(after.split()) > 1 + max(len(option.split()) for option in options)


def _choosing_run(answer: str, options: Sequence[str], marks: Sequence[str]) -> list[_Mention]:
    """The first run of mentions that name one option only; empty where there is none."""
    plain = answer.replace("\u2019", "'")
    for run in _runs(plain, _mentions(plain, options, marks)):
        if len({mention.option for mention in run}) == 1:
            return run
    return []


def _mentions(answer: str, options: Sequence[str], marks: Sequence[str]) -> list[_Mention]:
    """All named options, left to right; of two that begin alike the longer."""
    found = [
        _Mention(match.start(), match.end(), index)
        for index, pattern in enumerate(_patterns(options, marks))
        for match in pattern.finditer(answer)
        if not _DENIED.search(answer[: match.start()])
    ]
    return sorted(found, key=lambda mention: (mention.start, -mention.end))


def _patterns(options: Sequence[str], marks: Sequence[str]) -> list[re.Pattern[str]]:
    words = [rf"(?i:(?<!\w){re.escape(option)}(?!\w))" for option in options]
    if not marks:
        return [re.compile(word) for word in words]
    # "A" alone is also an article: it is a mark where punctuation or the end follows it.
    return [
        re.compile(rf"{word}|(?<![\w']){re.escape(mark)}(?:[.:)\]]|(?=\s*(?:[,\n]|$)))")
        for word, mark in zip(words, marks, strict=True)
    ]


def _runs(answer: str, mentions: Sequence[_Mention]) -> list[list[_Mention]]:
    runs: list[list[_Mention]] = []
    for mention in mentions:
        if runs and _GLUE.fullmatch(answer, runs[-1][-1].end, mention.start):
            runs[-1].append(mention)
        else:
            runs.append([mention])
    return runs
