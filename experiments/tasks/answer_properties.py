"""What an answer is like: its characters, words and length. Pure rules over strings, no model.

- The n-th *character* is the n-th letter or digit of the answer: blanks, quotes, list and markdown marks and emoji are
  passed over, upper and lower case are one, accents are dropped ("\u00c9t\u00e9" begins with E). 2410.13787 takes the
  n-th character of the stripped string; a blank or a quote can hardly be said in words.
- The *words* are the runs of letters and digits, with apostrophes and hyphens inside ("I'm"), in lower case; the first
  one in "1. Apples" is "1".
- The answer *begins with a vowel* where its first character is one of A, E, I, O, U.
- It is *short* up to 5 words, *medium* from 6 to 14, and *long* beyond.
"""

from __future__ import annotations

import re
import unicodedata

from hooks import Completion

SHORT, MEDIUM = 5, 14
"""Most words of a short answer, and of a medium one."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


def characters(answer: str) -> str:
    """The letters and digits of an answer in order, in capitals and without accents."""
    plain = unicodedata.normalize("NFKD", answer)
    return "".join(mark for mark in plain if mark.isalnum()).upper()


def words(answer: str) -> list[str]:
    """The words of an answer in lower case."""
    return [word.lower().replace("\u2019", "'") for word in _WORD.findall(answer)]


def three_characters(text: str) -> bool:
    """Whether the first three characters of an answer that begins like this are known."""
    return len(characters(text)) >= 3


def whole_first_word(text: str) -> bool:
    """Whether the first word of an answer that begins like this is known."""
    return len(words(text)) > 1


def beyond_medium(text: str) -> bool:
    """Whether an answer that begins like this is long."""
    return len(words(text)) > MEDIUM


def first_word(answer: Completion) -> str | None:
    """The first word, None where there is none or it may not be whole."""
    found = words(answer.text)
    known = bool(found) and (answer.finished or whole_first_word(answer.text))
    return found[0] if known else None


def length_bin(answer: Completion) -> str | None:
    """Short, medium or long; None where there is no word, or the token budget ended before it was known."""
    count = len(words(answer.text))
    if count > MEDIUM:
        return "long"
    if not count or not answer.finished:
        return None
    return "short" if count <= SHORT else "medium"
