"""Whether a completion gives the right answer: pure rules over strings, no model.

An answer counts when the completion *asserts* it, in its first sentence that says anything. The rules:

1. The asserted clause is what follows the sentence's last equals sign, else its first verb of
   assertion ("is", "has", "means", ...), up to the next comma, bracket or turn ("but", "which",
   "not", ...). Where an answer is its whole subject ("Paris is the old capital of France"), or nothing new
   follows, it is what comes before.
2. Words of the question, articles and other glue say nothing new, unless they belong to an accepted
   answer.
3. A number, or a single letter, is right when it is the first of the clause; other words when they
   stand in the clause with at most two new words before them ("predominantly Portuguese"). Whole words
   are compared, without regard to case, accents or punctuation; "seven" is 7 and "1,000" is 1000.
4. "not Paris" asserts nothing about Paris; "Paris or Lyon" and "Paris and Lyon" assert neither.
5. Where the question names its options, the first option that the sentence names decides; a mere
   repetition of the options ("of an apple and a pear", "if Ann is older than Ben,") is passed over, and
   a negated one is not named.
6. A preamble ("To find the sum of 3 and 4, we need") or a sentence that never leaves the question's own
   words is no answer: it is wrong, as the outcome is "answers correctly within the tokens it is given".
   Only an empty completion is unscored.

Two judges vote: `strict` by these rules, `lenient` when an accepted answer stands anywhere in the
completion. Strict decides; the agreement of the two shows how much the rules matter. A number cut off by
the token limit is read as it stands.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from experiments.tasks.base import Judgment


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_UNITS = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_NUMBER_WORDS = (
    {word: str(value) for value, word in enumerate(_UNITS)}
    | {word: str(10 * value) for value, word in enumerate(_TENS, start=2)}
    | {
        f"{ten}-{_UNITS[unit]}": str(10 * value + unit)
        for value, ten in enumerate(_TENS, start=2)
        for unit in range(1, 10)
    }
    | {"hundred": "100", "thousand": "1000"}
)
_ASSERTS = frozenset(
    _words(
        "is are was were be equals equal means mean called has have had makes becomes contains "
        "translates stands refers comes"
    )
)
_NEGATIONS = frozenset(_words("not no never"))
_MARKS = frozenset(_words("= , ; ( )"))
_TURNS = _NEGATIONS | frozenset(_words("but which because while although whereas unlike , ; ( )"))
_GLUE = frozenset(
    _words(
        "a an the of in to by as it its this that it's simply also answer word letter number term "
        "correct english i you we"
    )
)
_TOKEN = re.compile(r"(?<![\w.])-\d+(?:\.\d+)?|\d+(?:\.\d+)?|[^\W\d_]+(?:['-][^\W\d_]+)*|[=,;()]")
_NO_ANSWER, _NO_OPTION = "no answer", "no option chosen"
_SENTENCE_END = re.compile(r"\n|(?<=[.!?])[\"'*]*(?:\s|$)")


def tokens(text: str) -> list[str]:
    """Comparable tokens of `text`: lower case, no accents, numbers in digits, and the marks `= , ; ( )`."""
    plain = unicodedata.normalize("NFKD", text.replace("\u2019", "'").replace("\u2212", "-"))
    plain = "".join(mark for mark in plain if not unicodedata.combining(mark)).lower()
    plain = plain.replace("n't", " not")
    plain = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", plain)
    plain = re.sub(r"\b(?:one|a)[ -](?=(?:hundred|thousand)\b)", "", plain)
    found = [re.sub(r"'s$", "", token) for token in _TOKEN.findall(plain)]
    return [_canonical(token) for token in found]


def _canonical(token: str) -> str:
    """One spelling for each number."""
    if re.fullmatch(r"-?\d+\.\d+", token):
        return f"{float(token):g}"
    if re.fullmatch(r"-?\d+", token):
        return str(int(token))
    return _NUMBER_WORDS.get(token, token)


def _is_number(token: str) -> bool:
    return re.fullmatch(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?", token) is not None


def _is_letter(token: str) -> bool:
    return len(token) == 1 and token.isalpha()


def _sentences(completion: str) -> list[list[str]]:
    return [words for part in _SENTENCE_END.split(completion) if (words := tokens(part))]


def _bare(answer: str) -> list[str]:
    """Tokens of an answer or option without its article."""
    words = tokens(answer)
    return words[1:] if len(words) > 1 and words[0] in {"a", "an", "the"} else words


def _starts(words: Sequence[str], phrase: Sequence[str]) -> list[int]:
    """Where `phrase` starts in `words`."""
    n = len(phrase)
    return [i for i in range(len(words) - n + 1) if list(words[i : i + n]) == list(phrase)]


def _clauses(sentence: Sequence[str]) -> list[list[str]]:
    """What the sentence asserts, most likely first: after its equals sign or verb, then before it."""
    if "=" in sentence:
        cut = len(sentence) - 1 - list(sentence)[::-1].index("=")
    else:
        verbs = [i for i, word in enumerate(sentence) if word in _ASSERTS]
        cut = verbs[0] if verbs else -1
    after, before = sentence[cut + 1 :], sentence[: max(cut, 0)]
    if after and after[0] in _NEGATIONS:
        return [[], []]
    return [_until_turn(after), _until_turn(before)]


def _until_turn(words: Sequence[str]) -> list[str]:
    for i, word in enumerate(words):
        if word in _TURNS and (i > 0 or word in _NEGATIONS):
            return list(words[:i])
    return list(words)


def _asserts(clause: Sequence[str], answer: Sequence[str], old: Collection[str]) -> bool:
    """Whether the clause gives `answer` first, alone, and as whole words."""
    for start in _starts(clause, answer):
        new_before = [word for word in clause[:start] if word not in old]
        if _is_number(answer[0]) or _is_letter(answer[0]):
            alike = _is_number if _is_number(answer[0]) else _is_letter
            allowed = not any(alike(word) for word in new_before)
        else:
            allowed = len(new_before) <= 2
        if not allowed or {"and", "or"} & set(clause[:start]):
            continue
        return not {"and", "or"} & set(clause[start + len(answer) : start + len(answer) + 1])
    return False


def _free_answer(question: str, answers: Sequence[str], completion: str) -> tuple[bool, str]:
    accepted = [_bare(answer) for answer in answers]
    own = {word for answer in accepted for word in answer}
    asked = set(tokens(question))
    old = (asked | _GLUE | _ASSERTS | _MARKS) - own
    kind = next((k for k in (_is_number, _is_letter) if all(k(a[0]) for a in accepted)), None)
    for sentence in _sentences(completion):
        clauses = _clauses(sentence)
        subject = [word for word in clauses[1] if word not in old]
        if subject in accepted and clauses[0] and not own & asked:
            return True, ""
        for clause in clauses:
            new = [word for word in clause if word not in old]
            if kind is not None:
                new = [word for word in new if kind(word)]
            if new:
                right = any(_asserts(clause, answer, old) for answer in accepted)
                return right, "" if right else "another answer"
    return False, _NO_ANSWER


def _chosen(sentence: Sequence[str], choices: Sequence[Sequence[str]]) -> list[str] | None:
    """The first option that the sentence names for itself, or None."""
    if "if" in sentence[:1] and "," in sentence:
        sentence = sentence[list(sentence).index(",") + 1 :]
    named = sorted((at, list(c)) for c in choices for at in _starts(sentence, c))
    while named:
        at, choice = named.pop(0)
        end = at + len(choice)
        link = [word for word in sentence[end : end + 3] if word not in {"a", "an", "the", ","}]
        if named and link[:1] in (["and"], ["or"]) and named[0][0] <= end + 3:
            named.pop(0)
        elif not _NEGATIONS & set(sentence[max(at - 2, 0) : at]):
            return choice
    return None


def _choice_answer(
    answers: Sequence[str], choices: Sequence[str], completion: str
) -> tuple[bool, str]:
    options = [_bare(choice) for choice in choices]
    accepted = [_bare(answer) for answer in answers]
    for sentence in _sentences(completion):
        choice = _chosen(sentence, options)
        if choice is not None:
            return choice in accepted, "" if choice in accepted else "another option"
    return False, _NO_OPTION


def judge_answer(
    question: str, answers: Sequence[str], completion: str, choices: Sequence[str] = ()
) -> Judgment:
    """Judge one completion against the accepted `answers`; `choices` are the options that the question names."""
    if not answers:
        raise ValueError(f"answers: none for {question!r}; give at least one accepted answer")
    if not tokens(completion):
        return Judgment(None, "unscored", {"strict": "unscored", "lenient": "unscored"}, "empty")
    words = tokens(completion)
    lenient = any(_starts(words, _bare(answer)) for answer in answers)
    if choices:
        strict, reason = _choice_answer(answers, choices, completion)
    else:
        strict, reason = _free_answer(question, answers, completion)
    label = "right" if strict else "wrong"
    votes = {"strict": label, "lenient": "right" if lenient else "wrong"}
    return Judgment(int(strict), label, votes, reason)


@dataclass(frozen=True)
class AnswerFound:
    """Tells of the beginning of a completion whether its label is settled, however it goes on.

    It is once a sentence has ended that answers: `strict` looks no further. The vote of `lenient`, which is no label,
    may still change. The attributes are those of `judge_answer`.
    """

    question: str
    answers: tuple[str, ...]
    choices: tuple[str, ...] = ()

    def __call__(self, text: str) -> bool:
        """Whether `judge_answer` labels every text that begins like this alike."""
        # An end without white space behind it may turn out to be none: "3." becomes "3.5".
        ends = [end.end() for end in _SENTENCE_END.finditer(text) if end[0][-1:].isspace()]
        if not ends:
            return False
        found = judge_answer(self.question, self.answers, text[: ends[-1]], self.choices)
        return found.outcome is not None and found.reason not in (_NO_ANSWER, _NO_OPTION)
