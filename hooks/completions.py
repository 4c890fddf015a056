"""What a model wrote, and when it is over: at a stop token, at the next turn of a transcript, or once it is decided."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.completion_format import certain_turn, own_turn
from hooks.model import Model
from hooks.prompts import STAND_IN

CHECK_EVERY = 2
"""Tokens between two looks at a text: decoding it costs more than comparing a token."""

_HALF_A_CHARACTER = "\ufffd"


@dataclass(frozen=True)
class Completion:
    """What a model wrote.

    Attributes:
        id: the prompt's id.
        sample: which of the prompt's samples, from 0.
        text: the text without special tokens.
        n_tokens: number of tokens before the stop.
        finished: whether the model stopped by itself, within the budget.
        decided: whether it was let go unfinished because `decided(text)` holds: `text` is the beginning of what the
            model would have written.
    """

    id: str
    sample: int
    text: str
    n_tokens: int
    finished: bool
    decided: bool = False


@dataclass(frozen=True)
class Ending:
    """Tells when a completion of one prompt is over, and what it says then.

    Attributes:
        tokenizer: of the model.
        stops: tokens that end an answer.
        transcript: whether the prompt is a transcript, where the next turn ends an answer.
        decided: of the text so far: whether what comes next is of no interest.
    """

    tokenizer: Any
    stops: Collection[int]
    transcript: bool = False
    decided: Callable[[str], bool] | None = None

    def over(self, tokens: Sequence[int]) -> bool:
        """Tell after every token whether it was the last; texts are looked at every `CHECK_EVERY` tokens."""
        if tokens[-1] in self.stops:
            return True
        if len(tokens) % CHECK_EVERY:
            return False
        return (self.transcript and own_turn(self._text(tokens))[1]) or self._is_decided(tokens)

    def completion(self, id: str, sample: int, tokens: Sequence[int]) -> Completion:
        """Return what was written in all."""
        n_tokens = next((i for i, token in enumerate(tokens) if token in self.stops), len(tokens))
        finished = n_tokens < len(tokens)
        tokens = tokens[:n_tokens]
        text = self._text(tokens)
        if self.transcript:
            text, followed = own_turn(text)
            if followed:
                finished, n_tokens = True, self._n_tokens_of(text, tokens)
        if finished or not self._is_decided(tokens):
            return Completion(id, sample, text, n_tokens, finished)
        return Completion(id, sample, self._text_so_far(tokens), n_tokens, finished, decided=True)

    def _is_decided(self, tokens: Sequence[int]) -> bool:
        return self.decided is not None and self.decided(self._text_so_far(tokens))

    def _text(self, tokens: Sequence[int]) -> str:
        text = self.tokenizer.decode(list(tokens), skip_special_tokens=True)
        assert isinstance(text, str)
        return text

    def _text_so_far(self, tokens: Sequence[int]) -> str:
        """What every longer text begins with: a character may still lack some of its bytes."""
        text = self._text(tokens).rstrip(_HALF_A_CHARACTER)
        return certain_turn(text) if self.transcript else text

    def _n_tokens_of(self, text: str, tokens: Sequence[int]) -> int:
        """Return how many tokens it took to write a text."""
        return next(
            n
            for n in range(len(tokens) + 1)
            if own_turn(self._text(tokens[:n]))[0].startswith(text)
        )


def stop_tokens(model: Model) -> tuple[int, ...]:
    """Return the tokens that end an answer: EOS, and what the chat template ends a turn with."""
    stops: set[int] = set()
    for holder in (model.tokenizer, model.module.config, model.module.generation_config):
        ids = getattr(holder, "eos_token_id", None)
        if ids is not None:
            stops.update(ids if isinstance(ids, list | tuple) else (ids,))
    end_of_turn = _end_of_turn(model.tokenizer)
    if end_of_turn is not None:
        stops.add(end_of_turn)
    return tuple(sorted(stops))


def _end_of_turn(tokenizer: Any) -> int | None:
    """Return the special token that the chat template puts behind an assistant's message."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": STAND_IN}]
    after = tokenizer.apply_chat_template(turns, tokenize=False).partition(STAND_IN)[2]
    ids = tokenizer(after, add_special_tokens=False)["input_ids"]
    added = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    return int(ids[0]) if ids and ids[0] in added else None
