"""A model without a chat template reads a chat as a transcript, and ends its turn where it begins the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hooks import CaptureSpec, Message, Model, Prompt, capture, generate, render
from hooks.completion_format import certain_turn, own_turn, transcript
from hooks.completions import CHECK_EVERY, Ending
from hooks.positions import positions_of, token_range

CHAT = (
    ("system", "Answer in one word."),
    ("user", "What is 2 + 2?"),
    ("assistant", "four"),
    ("user", "What is the capital of France?"),
)
TEXT = (
    "Answer in one word.\n\nUser: What is 2 + 2?\n\nAssistant: four\n\n"
    "User: What is the capital of France?\n\nAssistant:"
)


@pytest.fixture
def base_model(tiny_model: Model, tokenizer_of: Callable[..., Any]) -> Model:
    """Each of the tiny models, without its template."""
    own = tiny_model.tokenizer
    bare = tokenizer_of(None, bos=own.bos_token, eos=own.eos_token, pad=own.pad_token)
    return replace(tiny_model, tokenizer=bare)


def test_a_chat_becomes_the_documented_text() -> None:
    text, start, end = transcript(CHAT)
    assert text == TEXT
    assert text[start:end] == "What is the capital of France?"


@pytest.mark.parametrize("bos", [None, "<s>"])
def test_tokens_and_positions(tokenizer_of: Callable[..., Any], bos: str | None) -> None:
    tokenizer = tokenizer_of(None, bos=bos, eos="</s>")
    messages = tuple(Message(role=role, content=text) for role, text in CHAT)
    prompt = Prompt(id="a", messages=messages, quote="the capital")
    rendered = render(tokenizer, prompt)
    ids = list(rendered.token_ids)
    # Exactly one BOS where there is one (trap 4).
    assert ids == [
        *([tokenizer.bos_token_id] if bos else []),
        *tokenizer(TEXT, add_special_tokens=False)["input_ids"],
    ]

    def words(position: str) -> str:
        start, end = token_range(rendered, position)
        return str(tokenizer.decode(ids[start:end]))

    assert words("mean_instruction").strip() == "What is the capital of France?"
    assert words("instruction_last").endswith("?")
    assert words("quote_last").strip()
    assert "capital".endswith(words("quote_last").strip())
    assert words("prompt_last") == words(f"template_{len(positions_of(rendered)) - 4}") == ":"
    last = token_range(rendered, "instruction_last")[1]
    assert tokenizer.decode(ids[last:]) == "\n\nAssistant:"


def test_chats_of_a_base_model_are_captured_and_answered(base_model: Model) -> None:
    questions = {str(n): "What is the sea? " * n for n in (1, 2)}
    prompts = [Prompt.chat(id, text, system="Answer.") for id, text in questions.items()]
    texts = [  # what they must amount to
        Prompt(id=id, text=f"Answer.\n\nUser: {text}\n\nAssistant:")
        for id, text in questions.items()
    ]
    spec = CaptureSpec(positions=("instruction_last", "template_1", "prompt_last"))
    (found,) = capture(base_model, prompts, spec)
    (wanted,) = capture(base_model, texts, CaptureSpec(positions=("prompt_last",)))
    order = [found.ids.index(id) for id in wanted.ids]
    states = found.sites["resid_post"][order][:, :, 2]
    torch.testing.assert_close(states, wanted.sites["resid_post"][:, :, 0], rtol=0, atol=5e-5)
    for chat, text in zip(
        generate(base_model, prompts, max_new_tokens=8),
        generate(base_model, texts, max_new_tokens=8),
        strict=True,
    ):
        assert chat.text == text.text.lstrip()


def test_the_format_is_part_of_the_fingerprint_of_base_models_alone(
    base_model: Model, tiny_model: Model
) -> None:
    assert (base_model.prompt_format, tiny_model.prompt_format) == ("completion", "chat template")
    assert base_model.fingerprint["prompt_format"] == "completion"
    assert "prompt_format" not in tiny_model.fingerprint


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (" Paris.\n\nUser: And Spain?", ("Paris.", True)),
        (" Paris.\nAssistant: Paris.", ("Paris.", True)),
        ("\n\nParis.\n\nUsers are", ("Paris.\n\nUsers are", False)),
        (" Ask the User: they know.", ("Ask the User: they know.", False)),
        ("User: what?", ("", True)),
        ("", ("", False)),
    ],
)
def test_a_turn_ends_where_the_next_begins(written: str, wanted: tuple[str, bool]) -> None:
    assert own_turn(written) == wanted


@given(st.lists(st.sampled_from(["\n", " ", "User", "Us", ":", "Assistant", "Paris.", "a"])))
def test_what_is_certain_begins_whatever_is_written_next(parts: list[str]) -> None:
    whole = own_turn("".join(parts))[0]
    for n in range(len(parts)):
        assert whole.startswith(certain_turn("".join(parts[:n])))


def test_a_completion_is_cut_at_the_next_turn_and_counted(
    tokenizer_of: Callable[..., Any],
) -> None:
    tokenizer = tokenizer_of(None, bos=None, eos="</s>")

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    ending = Ending(tokenizer, {tokenizer.eos_token_id}, transcript=True)
    answer, rest = ids(" Paris."), ids("\n\nUser: And of Spain? User")
    done = ending.completion("a", 0, answer + rest)
    assert (done.text, done.finished, done.n_tokens) == ("Paris.", True, len(answer))
    looks = [n for n in range(1, len(answer + rest) + 1) if ending.over((answer + rest)[:n])]
    mark = len(answer + ids("\n\nUser:"))
    assert looks[0] == -(-mark // CHECK_EVERY) * CHECK_EVERY
    # A text prompt has no turns.
    plain = Ending(tokenizer, {tokenizer.eos_token_id})
    assert plain.completion("a", 0, answer + rest).text == " Paris.\n\nUser: And of Spain? User"
