from __future__ import annotations

from typing import Any

import pytest
import torch

from hooks import CaptureSpec, Model, Prompt, capture, option_logprobs, render
from hooks.backends import get_backend

PROMPTS = [Prompt.chat(f"p{n}", "What is the capital? " * n, quote="capital") for n in range(1, 9)]


def test_one_array_a_site(tiny_model: Model) -> None:
    spec = CaptureSpec(
        sites=("embed", "resid_post", "final_norm"), positions=("quote_last", "prompt_last")
    )
    (acts,) = capture(tiny_model, PROMPTS[:2], spec)
    assert {site: tuple(states.shape) for site, states in acts.sites.items()} == {
        "embed": (2, 1, 2, 32),
        "resid_post": (2, 3, 2, 32),
        "final_norm": (2, 1, 2, 32),
    }
    assert acts.layers == (0, 1, 2)
    assert acts.positions == spec.positions
    assert not any(states.is_inference() for states in acts.sites.values())


def test_finished_batches_are_skipped_and_others_keep_their_membership(tiny_model: Model) -> None:
    spec = CaptureSpec(layers=(1,))
    arguments: dict[str, Any] = {"batch_tokens": 120, "share_prefixes": False}
    whole = list(capture(tiny_model, PROMPTS, spec, **arguments))
    assert len(whole) >= 3
    done = {*whole[0].ids, *whole[2].ids, *whole[1].ids[1:]}
    rest = list(capture(tiny_model, PROMPTS, spec, done=done, **arguments))
    assert [acts.ids for acts in rest] == [whole[1].ids, *(acts.ids for acts in whole[3:])]
    assert torch.equal(rest[0].sites["resid_post"], whole[1].sites["resid_post"])
    ids = [prompt.id for prompt in PROMPTS]
    assert list(capture(tiny_model, PROMPTS, spec, done=ids, **arguments)) == []


def test_the_pass_ends_after_the_last_block_that_is_wanted(tiny_model: Model) -> None:
    calls: list[int] = []
    blocks = tiny_model.architecture.blocks
    handles = [
        block.module.register_forward_hook(lambda *_, index=index: calls.append(index))
        for index, block in enumerate(blocks)
    ]
    list(capture(tiny_model, PROMPTS[:1], CaptureSpec(layers=(1,))))
    assert calls == [0, 1]
    calls.clear()
    list(capture(tiny_model, PROMPTS[:1], CaptureSpec(layers=(1,)), options={"yes": ["yes"]}))
    assert calls == [0, 1, 2]
    for handle in handles:
        handle.remove()


def test_the_unembedding_reads_the_answer_slots_alone(tiny_model: Model) -> None:
    shapes: list[tuple[int, ...]] = []
    unembedding = tiny_model.module.get_output_embeddings()
    with unembedding.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape[:-1]))):
        list(capture(tiny_model, PROMPTS, CaptureSpec()))
        assert shapes == []
        option_logprobs(tiny_model, PROMPTS, {"yes": ["yes"]})
    assert shapes == [(len(PROMPTS),)]


def test_sharing_lays_fewer_tokens_and_changes_no_state(tiny_model: Model) -> None:
    slots: list[int] = []
    embedding = tiny_model.module.get_input_embeddings()
    found = []
    with embedding.register_forward_hook(lambda _, args, __: slots.append(args[0].numel())):
        for share in (True, False):
            batches = capture(tiny_model, PROMPTS, CaptureSpec(), share_prefixes=share)
            found.append(
                {
                    id: row
                    for acts in batches
                    for id, row in zip(acts.ids, acts.sites["resid_post"], strict=True)
                }
            )
    assert slots[0] < sum(slots[1:]) / 2
    for id, states in found[0].items():
        torch.testing.assert_close(states, found[1][id], rtol=0, atol=5e-5)


def test_option_logprobs_come_in_the_order_of_the_prompts(tiny_model: Model) -> None:
    options = {"yes": ["yes"], "no": ["no", "poem"]}
    found = option_logprobs(tiny_model, PROMPTS, options)
    for row, prompt in enumerate(PROMPTS):
        with torch.inference_mode():
            logits = tiny_model.module(torch.tensor([render(tiny_model, prompt).token_ids])).logits
        logprobs = torch.log_softmax(logits[0, -1], -1)
        for option, words in options.items():
            spelled = {f"{s}{c}" for w in words for c in (w, w.capitalize()) for s in ("", " ")}
            first = {tiny_model.tokenizer.encode(s, add_special_tokens=False)[0] for s in spelled}
            first = {t for t in first if tiny_model.tokenizer.decode([t]).strip()}
            wanted = logprobs[sorted(first)].exp().sum().log()
            assert float(found[option][row]) == pytest.approx(float(wanted), abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_models_give_float32_states(
    tiny_model_of: Any, module_of: Any, dtype: torch.dtype
) -> None:
    full = tiny_model_of("llama")
    half = Model.from_module(module_of(full.module.config).to(dtype), full.tokenizer, name="half")
    assert half.architecture.unavailable == {}
    assert half.architecture.sharing_problem == ""
    assert half.architecture.readout_problem == ""
    (acts,) = capture(half, PROMPTS[:2], CaptureSpec())
    assert acts.sites["resid_post"].dtype == torch.float32
    (wanted,) = capture(full, PROMPTS[:2], CaptureSpec())
    error = (acts.sites["resid_post"] - wanted.sites["resid_post"]).abs().max()
    assert float(error) < 0.1 * float(wanted.sites["resid_post"].abs().max())


@pytest.mark.parametrize(
    ("prompts", "arguments", "message"),
    [
        ([], {}, "prompts: empty"),
        (PROMPTS[:1] * 2, {}, "prompts: id 'p1' occurs 2 times"),
        ([Prompt(id="a", text="yes " * 300)], {}, "'a' has .* tokens, but the model reads at most"),
        (
            [Prompt(id="a", text="yes")],
            {"spec": CaptureSpec(positions=("quote_last",))},
            "prompt 'a' has no position 'quote_last'; it has mean_instruction, instruction_last",
        ),
        (
            PROMPTS,
            {"spec": CaptureSpec(positions=("template_90",))},
            "prompt 'p1' has no position 'template_90'; .*template_2, .*prompt_last",
        ),
        (PROMPTS, {"spec": CaptureSpec(layers=(7,))}, "layers: 7 does not exist"),
        (PROMPTS, {"backend": "jax"}, "backend: unknown backend 'jax'; choose from torch"),
        (PROMPTS, {"batch_tokens": 0}, "batch_tokens: 0 is not positive"),
        (PROMPTS, {"options": {"yes": "yes"}}, "options: 'yes' needs a sequence"),
        (
            PROMPTS,
            {"options": {"one": ["yes"], "two": [" Yes"]}},
            "options: 'one' and 'two' begin with the same token",
        ),
    ],
)
def test_bad_input_is_named_before_any_work(
    tiny_model: Model, prompts: list[Prompt], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        capture(tiny_model, prompts, **{"spec": CaptureSpec(), **arguments})


def test_backends_are_found_by_name() -> None:
    assert get_backend("torch") is get_backend("torch")


def test_options_may_not_be_empty(tiny_model: Model) -> None:
    with pytest.raises(ValueError, match="options: empty"):
        option_logprobs(tiny_model, PROMPTS, {})
