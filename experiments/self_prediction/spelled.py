"""How a model would write an answer: the tokens behind its prompt, up to the one that ends its turn."""

from __future__ import annotations

from typing import Any

from hooks import Model, Prompt, render
from hooks.completion_format import COMPLETION
from hooks.completions import stop_tokens
from hooks.prompts import STAND_IN

_ASKED = "?"


def answer_tokens(model: Model, answer: str) -> tuple[int, ...]:
    """The tokens of an answer, spaced as the chat template spaces an assistant's message, with the end of the turn.

    Where a template ends no turn by a token of its own, and in transcripts, the end is the tokenizer's EOS; without
    one there is none.
    """
    opened = render(model, Prompt.chat("opened", _ASKED))
    before, after = _around(model, opened.token_ids)
    stops = stop_tokens(model)
    own = _behind(model.tokenizer, opened.token_ids, f"{before}{answer}")
    # Apart from the answer: a stop token is one whatever stands before it.
    ending = _ids(model.tokenizer, after)
    if ending and ending[0] in stops:
        return (*own, ending[0])
    end = model.tokenizer.eos_token_id
    return own if end is None else (*own, int(end))


def _around(model: Model, opened: tuple[int, ...]) -> tuple[str, str]:
    """What the template writes between a prompt and the answer, if that is white space, and what behind it."""
    if model.prompt_format == COMPLETION:
        return " ", ""
    turns = [{"role": "user", "content": _ASKED}, {"role": "assistant", "content": STAND_IN}]
    chat: str = model.tokenizer.apply_chat_template(turns, tokenize=False)
    begun: str = model.tokenizer.apply_chat_template(
        turns[:1], tokenize=False, add_generation_prompt=True
    )
    said, _, after = chat.partition(STAND_IN)
    between = said.removeprefix(begun) if said.startswith(begun) else ""
    # A template may put an empty chain of thought there; what is asked of the model stands without one.
    return ("" if between.strip() else between), after


def _behind(tokenizer: Any, opened: tuple[int, ...], text: str) -> tuple[int, ...]:
    """The tokens of a text behind a prompt; those of the text alone where both would grow together."""
    whole = _ids(tokenizer, tokenizer.decode(opened) + text)
    if tuple(whole[: len(opened)]) == opened and len(whole) > len(opened):
        return tuple(whole[len(opened) :])
    return tuple(_ids(tokenizer, text))


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
