from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from hooks import Activations, CaptureSpec, Completion, Model, Prompt, capture, generate, render
from hooks.completions import CHECK_EVERY, stop_tokens
from hooks.sampling import Sampling, row_seed

CPU = torch.device("cpu")

PROMPTS = [Prompt.chat(f"p{n}", "What is the sea? " * n) for n in (3, 1, 2)]


def greedy_by_hand(model: Model, prompt: Prompt, n: int) -> list[int]:
    ids = list(render(model, prompt).token_ids)
    new: list[int] = []
    for _ in range(n):
        with torch.inference_mode():
            token = int(model.module(torch.tensor([ids + new])).logits[0, -1].argmax())
        if token in stop_tokens(model):
            break
        new.append(token)
    return new


def test_greedy_completions_equal_a_loop_without_batches_or_caches(tiny_model: Model) -> None:
    seen: list[list[Completion]] = []
    found = generate(tiny_model, PROMPTS, max_new_tokens=6, batch_size=2, on_batch=seen.append)
    assert [completion.id for completion in found] == ["p3", "p1", "p2"]
    assert sorted(map(len, seen)) == [1, 2]
    for prompt, completion in zip(PROMPTS, found, strict=True):
        tokens = greedy_by_hand(tiny_model, prompt, 6)
        assert completion.n_tokens == len(tokens)
        assert completion.text == tiny_model.tokenizer.decode(tokens, skip_special_tokens=True)
        assert completion.finished == (len(tokens) < 6)


def test_tokens_are_told_with_the_one_that_a_completion_stopped_at(tiny_model: Model) -> None:
    told: dict[tuple[str, int], list[int]] = {}
    found = generate(
        tiny_model,
        PROMPTS,
        max_new_tokens=60,
        n_samples=12,
        temperature=3.0,
        on_tokens=lambda id, sample, tokens: told.update({(id, sample): list(tokens)}),
    )
    stops = stop_tokens(tiny_model)
    assert any(completion.finished for completion in found)
    for completion in found:
        tokens = told[completion.id, completion.sample]
        own = tokens[: completion.n_tokens]
        assert tokens[completion.n_tokens :] == tokens[-1:] * completion.finished
        assert (tokens[-1] in stops) == completion.finished
        assert tiny_model.tokenizer.decode(own, skip_special_tokens=True) == completion.text


def test_a_prefix_of_all_prompts_is_read_once(tiny_model: Model) -> None:
    lengths: list[int] = []
    embedding = tiny_model.module.get_input_embeddings()
    with embedding.register_forward_hook(lambda _, args, __: lengths.append(args[0].numel())):
        shared = generate(tiny_model, PROMPTS, max_new_tokens=6)
    sizes = [len(render(tiny_model, prompt)) for prompt in PROMPTS]
    if tiny_model.architecture.window is None:
        # A tree of all but the last tokens, then these.
        assert max(sizes) - 1 < lengths[0] < sum(sizes) - 3
        assert lengths[1] == 3
    else:
        prefix = lengths[0]
        assert prefix > min(sizes) / 3
        assert lengths[1] == 3 * (max(sizes) - prefix)
    # One prompt a batch shares nothing with any other.
    assert generate(tiny_model, PROMPTS, max_new_tokens=6, batch_size=1) == shared


def test_a_models_own_generation_config_cannot_change_labels(tiny_model: Model) -> None:
    plain = generate(tiny_model, PROMPTS, max_new_tokens=5)
    own = tiny_model.module.generation_config
    eos = own.eos_token_id
    loud = GenerationConfig(
        do_sample=True, temperature=9.0, repetition_penalty=9.0, min_new_tokens=5, eos_token_id=eos
    )
    tiny_model.module.generation_config = loud
    try:
        assert generate(tiny_model, PROMPTS, max_new_tokens=5) == plain
        assert tiny_model.module.generation_config is loud
    finally:
        tiny_model.module.generation_config = own


def test_generation_stops_at_the_end_of_a_turn(tiny_model_of: Any) -> None:
    tokenizer = tiny_model_of("gemma3").tokenizer
    ends = tokenizer.convert_tokens_to_ids(["<eos>", "<end_of_turn>"])
    assert set(stop_tokens(tiny_model_of("gemma3"))) == set(ends)
    tokenizer = tiny_model_of("gpt2").tokenizer
    ends = tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])
    assert set(stop_tokens(tiny_model_of("gpt2"))) == set(ends)


def test_a_stop_ends_the_text_and_is_not_counted(tiny_model: Model, monkeypatch: Any) -> None:
    (plain,) = generate(tiny_model, PROMPTS[:1], max_new_tokens=6)
    tokens = greedy_by_hand(tiny_model, PROMPTS[0], 6)
    monkeypatch.setattr("hooks.generation.stop_tokens", lambda _: (tokens[2],))
    (stopped,) = generate(tiny_model, PROMPTS[:1], max_new_tokens=6)
    first = tokens.index(tokens[2])
    assert plain.n_tokens > first
    assert stopped.n_tokens == first
    assert stopped.finished


def test_samples_follow_the_softmax(tiny_model: Model) -> None:
    prompt = Prompt(id="a", text="The sea and")
    n = 2000
    found = generate(
        tiny_model, [prompt], max_new_tokens=1, n_samples=n, temperature=2.0, batch_size=500
    )
    with torch.inference_mode():
        ids = torch.tensor([render(tiny_model, prompt).token_ids])
        p = torch.softmax(tiny_model.module(ids).logits[0, -1] / 2.0, -1)
    wanted: dict[str, float] = defaultdict(float)
    for token, probability in enumerate(p.tolist()):
        stops = token in stop_tokens(tiny_model)
        text = "" if stops else tiny_model.tokenizer.decode([token], skip_special_tokens=True)
        wanted[text] += probability
    texts = Counter(completion.text for completion in found)
    chi_squared = sum((texts[t] - n * share) ** 2 / (n * share) for t, share in wanted.items())
    degrees = len(wanted) - 1
    assert abs(chi_squared - degrees) < 5 * (2 * degrees) ** 0.5


def test_samples_are_seeded_and_leave_the_global_stream_alone(tiny_model: Model) -> None:
    state = torch.get_rng_state()
    arguments: dict[str, Any] = {"max_new_tokens": 4, "n_samples": 3, "temperature": 1.5}
    first = generate(tiny_model, PROMPTS, seed=1, **arguments)
    assert generate(tiny_model, PROMPTS, seed=1, **arguments) == first
    assert generate(tiny_model, PROMPTS[1:2], seed=1, **arguments) == first[3:6]
    assert generate(tiny_model, PROMPTS, seed=2, **arguments) != first
    assert [(c.id, c.sample) for c in first[:4]] == [("p3", 0), ("p3", 1), ("p3", 2), ("p1", 0)]
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens: 0 is not positive"),
        ({"max_new_tokens": 4, "n_samples": 2}, "n_samples: 2 greedy completions would be equal"),
        ({"max_new_tokens": 4, "temperature": 0.0}, "temperature: 0.0 is not positive"),
        ({"max_new_tokens": 250}, "'p3' has .* tokens and 250 new ones, but the model reads"),
    ],
)
def test_bad_input_is_named(tiny_model: Model, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate(tiny_model, PROMPTS, **arguments)


@pytest.mark.parametrize("n_samples", [1, 3])
def test_states_captured_while_generating_are_those_of_capture(
    tiny_model: Model, n_samples: int
) -> None:
    prompts = [
        Prompt.chat(f"p{i}", "What is the capital? " * (1 + i % 3) + "yes" * i, system="Answer.")
        for i in range(7)
    ]
    spec = CaptureSpec(
        sites=tiny_model.architecture.sites,
        positions=("mean_instruction", "instruction_last", "prompt_last"),
    )
    settings: dict[str, Any] = {
        "max_new_tokens": 4,
        "n_samples": n_samples,
        "batch_size": 4,
        "seed": 3,
    }
    if n_samples > 1:
        settings["temperature"] = 1.0
    found: list[Activations] = []
    with_states = generate(tiny_model, prompts, spec=spec, on_states=found.append, **settings)
    assert with_states == generate(tiny_model, prompts, **settings)
    assert sorted(id for acts in found for id in acts.ids) == [prompt.id for prompt in prompts]
    for acts in capture(tiny_model, prompts, spec):
        for row, id in enumerate(acts.ids):
            ours = next(acts for acts in found if id in acts.ids)
            for site, wanted in acts.sites.items():
                states = ours.sites[site][ours.ids.index(id)]
                bound = 5e-5 * max(1.0, float(wanted[row].abs().max()))
                assert float((states - wanted[row]).abs().max()) <= bound


def test_a_spec_without_a_taker_is_refused(tiny_model: Model) -> None:
    with pytest.raises(ValueError, match="on_states: give spec and on_states together"):
        generate(tiny_model, [Prompt(id="a", text="yes")], max_new_tokens=1, spec=CaptureSpec())


@contextmanager
def counted_tokens(model: Model) -> Iterator[list[int]]:
    """Collect how many tokens each forward pass reads."""
    counts: list[int] = []
    embedding = model.module.get_input_embeddings()
    with embedding.register_forward_hook(lambda _, args, __: counts.append(args[0].numel())):
        yield counts


def test_samples_of_a_prompt_share_one_reading_of_it(tiny_model: Model) -> None:
    with counted_tokens(tiny_model) as counts:
        generate(tiny_model, PROMPTS[:1], max_new_tokens=4, n_samples=8, temperature=1.0)
    assert counts[0] == len(render(tiny_model, PROMPTS[0]))
    assert max(counts[1:]) <= 8


@pytest.mark.parametrize("batch_size", [1, 4, 32])
def test_samples_are_those_of_a_loop_without_batches_or_caches(
    tiny_model: Model, batch_size: int
) -> None:
    settings: dict[str, Any] = {"n_samples": 3, "temperature": 1.5, "seed": 5}
    found = generate(tiny_model, PROMPTS, max_new_tokens=5, batch_size=batch_size, **settings)
    by_id = {prompt.id: prompt for prompt in PROMPTS}
    for completion in found:
        sampling = Sampling([row_seed(5, completion.id, completion.sample)], 1.5, CPU)
        tokens = list(render(tiny_model, by_id[completion.id]).token_ids)
        written: list[int] = []
        while len(written) < 5:
            with torch.inference_mode():
                logits = tiny_model.module(torch.tensor([tokens + written])).logits[:, -1]
            token = int(sampling(logits.float()))
            if token in stop_tokens(tiny_model):
                break
            written.append(token)
        text = tiny_model.tokenizer.decode(written, skip_special_tokens=True)
        assert (completion.text, completion.n_tokens) == (text, len(written))
        assert completion.finished == (len(written) < 5)


def test_completions_that_are_over_leave_the_batch(tiny_model: Model) -> None:
    settings: dict[str, Any] = {"n_samples": 16, "temperature": 1.0, "seed": 2}
    whole = generate(tiny_model, PROMPTS[:1], max_new_tokens=24, **settings)
    lengths = [min(completion.n_tokens + 1, 24) for completion in whole]
    with counted_tokens(tiny_model) as counts:
        generate(tiny_model, PROMPTS[:1], max_new_tokens=24, **settings)
    assert counts[1:] == [
        sum(length > step for length in lengths) for step in range(1, max(lengths))
    ]


def test_what_is_decided_is_let_go_and_says_the_beginning_of_the_whole(tiny_model: Model) -> None:
    settings: dict[str, Any] = {
        "max_new_tokens": 20,
        "n_samples": 6,
        "temperature": 1.0,
        "seed": 4,
    }
    whole = generate(tiny_model, PROMPTS, **settings)
    limit = sorted(len(completion.text) for completion in whole)[len(whole) // 2]
    asked: list[str] = []

    def decided(text: str) -> bool:
        asked.append(text)
        return len(text) >= limit

    for batch_size in (3, 32):
        found = generate(tiny_model, PROMPTS, decided=decided, batch_size=batch_size, **settings)
        for early, late in zip(found, whole, strict=True):
            assert (early.id, early.sample) == (late.id, late.sample)
            assert late.text.startswith(early.text)
            if early.decided:
                assert len(early.text) >= limit
                assert not early.finished
                assert early.n_tokens % CHECK_EVERY == 0 or early.n_tokens == late.n_tokens
            else:
                assert early == late
        assert any(completion.decided for completion in found)
        assert sum(c.n_tokens for c in found) < sum(c.n_tokens for c in whole)


def test_half_a_character_is_not_judged(tiny_model: Model) -> None:
    asked: list[str] = []

    def decided(text: str) -> bool:
        asked.append(text)
        return False

    settings: dict[str, Any] = {"n_samples": 12, "temperature": 3.0, "max_new_tokens": 16}
    plain = generate(tiny_model, PROMPTS, **settings)
    assert generate(tiny_model, PROMPTS, decided=decided, **settings) == plain
    assert asked
    assert not any(text.endswith("\ufffd") for text in asked)
    assert all(any(c.text.startswith(text) for c in plain) for text in asked)


def test_each_prompt_may_be_decided_by_a_function_of_its_own(tiny_model: Model) -> None:
    whole = generate(tiny_model, PROMPTS, max_new_tokens=12)
    found = generate(
        tiny_model,
        PROMPTS,
        max_new_tokens=12,
        decided=[lambda _: False, lambda _: True, lambda _: False],
    )
    assert found[0] == whole[0]
    assert found[2] == whole[2]
    assert found[1].n_tokens == min(CHECK_EVERY, whole[1].n_tokens)
    with pytest.raises(ValueError, match="decided: 1 functions for 3 prompts"):
        generate(tiny_model, PROMPTS, max_new_tokens=4, decided=[lambda _: False])


QUESTIONS = ("Yes or no?", "What is it? A or B, one letter.", "Why?")
QUOTED = [
    Prompt.chat(f"{i}-{j}", f'Message: "{quote}" {question}')
    for i, quote in enumerate(
        ("sea " * 9, "wind poem " * 12, "France", "Paris is a short word " * 3)
    )
    for j, question in enumerate(QUESTIONS[: 1 + i])
]


def test_families_of_prompts_are_answered_as_each_prompt_alone(tiny_model: Model) -> None:
    """Questions about texts of any length: equal to a loop without batches, whatever the batches."""
    found = generate(tiny_model, QUOTED, max_new_tokens=5)
    for prompt, completion in zip(QUOTED, found, strict=True):
        by_hand = greedy_by_hand(tiny_model, prompt, 5)
        assert completion.n_tokens == len(by_hand), prompt.id
        text = tiny_model.tokenizer.decode(by_hand, skip_special_tokens=True)
        assert completion.text == text, prompt.id
    for size in (1, 3, 7):
        assert generate(tiny_model, QUOTED[::-1], max_new_tokens=5, batch_size=size) == found[::-1]


def test_what_a_family_begins_with_is_read_once(tiny_model: Model) -> None:
    prompts = [
        Prompt.chat(f"{name}-{i}", f'Message: "{name * 20}" {question}')
        for name in ("sea ", "poem ", "wind ")
        for i, question in enumerate(QUESTIONS)
    ]
    tokens: list[int] = []
    embedding = tiny_model.module.get_input_embeddings()
    with embedding.register_forward_hook(lambda _, args, __: tokens.append(args[0].numel())):
        generate(tiny_model, prompts, max_new_tokens=1)
    beginnings, behind = tokens
    rendered = [render(tiny_model, prompt) for prompt in prompts]
    # Where windows count slots, only what all prompts begin with is shared.
    share = 0.6 if tiny_model.architecture.window is None else 1.0
    assert beginnings + behind < share * sum(map(len, rendered))
