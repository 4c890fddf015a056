"""A prompt, and its rendering into token ids with the spans that named positions refer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from jinja2.exceptions import TemplateError

from hooks.activations import is_id
from hooks.completion_format import COMPLETION, prompt_format, transcript

ROLES = ("system", "user", "assistant")

# Llama 3's template prints today's date unless it is told one: tokens must not change overnight.
_TEMPLATE_DATE = "26 Jul 2024"
STAND_IN = "SELFPROBESTANDIN"


class Message(TypedDict):
    """One turn of a chat: role `system`, `user` or `assistant`, and its text."""

    role: str
    content: str


@dataclass(frozen=True)
class Prompt:
    """What a model reads before it answers: a chat that ends with a user turn, or plain text.

    Attributes:
        id: names the prompt in every result.
        messages: the chat, rendered by the tokenizer's chat template, or as a transcript where it has none. Either
            this or `text`.
        text: plain text, read as it is.
        quote: a part of the last user message (or of the text) whose last token is the position
            `quote_last`; where it occurs more than once, the first occurrence counts.

    Raises:
        ValueError: names the prompt, the field and the mend.
    """

    id: str
    messages: tuple[Message, ...] | None = None
    text: str | None = None
    quote: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise ValueError(f"id: {self.id!r} is not a non-empty string")
        if not is_id(self.id):
            raise ValueError(f"id: {self.id!r} holds a NUL or half a character; use plain text")
        if (self.messages is None) == (self.text is None):
            raise ValueError(f"prompt {self.id!r}: give exactly one of messages and text")
        if self.text is not None and not self.text.strip():
            raise ValueError(f"prompt {self.id!r}: text is empty")
        if self.messages is not None:
            object.__setattr__(self, "messages", tuple(self.messages))
            self._check_messages(self.messages)
        if self.quote is not None and (
            not self.quote.strip() or self.quote not in self.instruction
        ):
            raise ValueError(
                f"prompt {self.id!r}: quote {self.quote!r} does not occur in the last user message"
            )

    def _check_messages(self, messages: Sequence[Message]) -> None:
        if not messages:
            raise ValueError(f"prompt {self.id!r}: messages is empty")
        for message in messages:
            if message["role"] not in ROLES:
                raise ValueError(
                    f"prompt {self.id!r}: unknown role {message['role']!r}; "
                    f"choose from {', '.join(ROLES)}"
                )
            if not message["content"].strip():
                raise ValueError(f"prompt {self.id!r}: a {message['role']} message is empty")
        if messages[-1]["role"] != "user":
            raise ValueError(
                f"prompt {self.id!r}: the last message is from {messages[-1]['role']!r}; "
                "end with the user's, so that the model's answer comes next"
            )
        if any(message["role"] == "system" for message in messages[1:]):
            raise ValueError(f"prompt {self.id!r}: a system message may only come first")

    @property
    def instruction(self) -> str:
        """The last user message, or the whole text."""
        if self.messages is not None:
            return self.messages[-1]["content"]
        assert self.text is not None
        return self.text

    @classmethod
    def chat(
        cls, id: str, content: str, system: str | None = None, quote: str | None = None
    ) -> Prompt:
        """Build a chat of one user message, after a system message if there is one."""
        user: Message = {"role": "user", "content": content}
        before: tuple[Message, ...] = ()
        if system is not None:
            before = ({"role": "system", "content": system},)
        return cls(id=id, messages=(*before, user), quote=quote)


@dataclass(frozen=True)
class Rendered:
    """A prompt as the model reads it, unpadded.

    Attributes:
        id: the prompt's id.
        token_ids: all tokens, with exactly one leading BOS where the tokenizer defines one.
        spans: half-open token ranges: `instruction`, and `quote` where the prompt has one.
        system_folded: whether the template takes no system message, so that it was put in front
            of the first user message.
        n_cut: how many tokens were cut off the end of the instruction.
        transcript: whether a chat was rendered without a template (`hooks.completion_format`).
    """

    id: str
    token_ids: tuple[int, ...]
    spans: Mapping[str, tuple[int, int]]
    system_folded: bool = False
    n_cut: int = 0
    transcript: bool = False

    def __len__(self) -> int:
        return len(self.token_ids)


def render(model_or_tokenizer: Any, prompt: Prompt) -> Rendered:
    """Turn a prompt into token ids and the token spans of its instruction and quote.

    The instruction is the last user message (or the whole text). A token that straddles the end
    of a span belongs to the span. Where the tokenizer defines a BOS, there is exactly one in
    front, whether or not the template writes it.

    Args:
        model_or_tokenizer: a `Model`, or a Hugging Face tokenizer with character offsets.
        prompt: what to render.

    Raises:
        ValueError: no character offsets, or an instruction that the template drops.
    """
    tokenizer = getattr(model_or_tokenizer, "tokenizer", model_or_tokenizer)
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"tokenizer {type(tokenizer).__name__} gives no character offsets; "
            "load the model's fast tokenizer (a tokenizer.json)"
        )
    _refuse_special_tokens(tokenizer, prompt)
    system_folded = False
    is_transcript = prompt.messages is not None and prompt_format(tokenizer) == COMPLETION
    if prompt.messages is None:
        text, start = prompt.instruction, 0
        end = len(text)
    elif is_transcript:
        text, start, end = transcript([(m["role"], m["content"]) for m in prompt.messages])
    else:
        messages, system_folded = _accepted_messages(tokenizer, prompt)
        text, start, end = _chat_text(tokenizer, messages, prompt)
    ids, offsets = _tokenize(tokenizer, text)
    spans = {"instruction": _token_span(offsets, start, end)}
    if prompt.quote is not None:
        quote = prompt.quote if prompt.quote in text[start:end] else prompt.quote.strip()
        quote_start = text.index(quote, start)
        spans["quote"] = _token_span(offsets, quote_start, quote_start + len(quote))
    for name, span in spans.items():
        if span[0] >= span[1]:
            raise ValueError(f"prompt {prompt.id!r}: the {name} has no token of its own")
    return Rendered(prompt.id, tuple(ids), spans, system_folded, transcript=is_transcript)


def truncated(rendered: Rendered, limit: int) -> Rendered:
    """Return a prompt of at most `limit` tokens: what is too much is cut off the end of its instruction.

    So the template's own tokens, and with them the answer slot, stay as they are.

    Raises:
        ValueError: what is around the instruction is too long by itself, or the quote would be cut.
    """
    n_cut = len(rendered) - limit
    if n_cut <= 0:
        return rendered
    start, end = rendered.spans["instruction"]
    quote_end = rendered.spans.get("quote", (0, start + 1))[1]
    if end - n_cut < quote_end:
        raise ValueError(
            f"prompts: {rendered.id!r} has {len(rendered)} tokens, but the model reads at most "
            f"{limit}, and cutting {n_cut} off its instruction would leave nothing of it "
            "or cut the quote; shorten it"
        )
    spans = {**rendered.spans, "instruction": (start, end - n_cut)}
    token_ids = rendered.token_ids[: end - n_cut] + rendered.token_ids[end:]
    return replace(rendered, token_ids=token_ids, spans=spans, n_cut=n_cut)


def special_tokens(tokenizer: Any) -> frozenset[str]:
    """The tokens of a tokenizer that no message may spell out."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    return frozenset({*tokenizer.all_special_tokens, *(str(t) for t in added if t.special)})


def _refuse_special_tokens(tokenizer: Any, prompt: Prompt) -> None:
    """A message that spells out a special token would end its own turn and forge another."""
    special = special_tokens(tokenizer)
    for message in prompt.messages or ():
        for token in special:
            if token in message["content"]:
                raise ValueError(
                    f"prompt {prompt.id!r}: a message holds the special token {token!r}; remove it"
                )


def _apply_template(tokenizer: Any, messages: Iterable[Message]) -> str:
    try:
        rendered = tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=True,
            date_string=_TEMPLATE_DATE,
        )
    except TemplateError:
        raise
    except Exception as error:  # a template is a program, and fails as programs do
        raise TemplateError(f"{type(error).__name__}: {error}") from error
    assert isinstance(rendered, str)
    return rendered


def _accepted_messages(tokenizer: Any, prompt: Prompt) -> tuple[tuple[Message, ...], bool]:
    """Return messages that the template renders in full, and whether the system one was folded."""
    messages = prompt.messages
    assert messages is not None
    if messages[0]["role"] != "system":
        return messages, False
    system = messages[0]["content"]
    try:
        # Some templates refuse a system role, others drop it without a word.
        if system.strip() in _apply_template(tokenizer, messages):
            return messages, False
    except TemplateError:
        pass
    first: Message = {"role": "user", "content": f"{system}\n\n{messages[1]['content']}"}
    return (first, *messages[2:]), True


def _chat_text(
    tokenizer: Any, messages: tuple[Message, ...], prompt: Prompt
) -> tuple[str, int, int]:
    """Return the rendered chat and the character range of the last user message in it.

    The range is found by rendering the same chat with a stand-in for that message: a search for
    the message itself would find a template's own words ("assistant") as well.
    """
    content = messages[-1]["content"]
    instruction = prompt.instruction
    stand_in_content = content[: len(content) - len(instruction)] + STAND_IN
    stand_in: Message = {"role": "user", "content": stand_in_content}
    try:
        text = _apply_template(tokenizer, messages)
        before, found, after = _apply_template(tokenizer, (*messages[:-1], stand_in)).partition(
            STAND_IN
        )
    except TemplateError as error:
        raise ValueError(f"prompt {prompt.id!r}: the chat template refuses it: {error}") from error
    start, end = len(before), len(text) - len(after)
    kept = text[start:end].strip()
    if not found or not text.startswith(before) or not text.endswith(after) or not kept:
        raise ValueError(f"prompt {prompt.id!r}: the chat template drops the user message")
    return text, start, end


def _tokenize(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Tokenize rendered text with exactly one leading BOS where the tokenizer defines one."""
    encoded = tokenizer(
        text,
        add_special_tokens=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        verbose=False,
    )
    ids = list(encoded["input_ids"])
    offsets = list(encoded["offset_mapping"])
    bos = tokenizer.bos_token_id
    if bos is not None and ids[:1] != [bos]:
        ids, offsets = [bos, *ids], [(0, 0), *offsets]
    return ids, offsets


def _token_span(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """Return the half-open range of the tokens that overlap the characters [start, end)."""
    inside = [index for index, (a, b) in enumerate(offsets) if a < end and b > start and b > a]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)
