"""Completions that go on from what a capture has read."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hooks import CaptureSpec, Kept, Model, Prompt, Steer, generate, intervene, plan_capture, render
from hooks.batching import shared_batch
from hooks.kept import keeping
from tests.hooks.test_generation import QUOTED, counted_tokens

SPEC = CaptureSpec(positions=("prompt_last",))
OPTIONS = {"yes": ["Yes"], "no": ["No"]}


def read_and_kept(
    model: Model, prompts: list[Prompt], **settings: Any
) -> tuple[list[torch.Tensor], list[Kept]]:
    """The states of a capture, and what was kept of its batches."""
    kept: list[Kept] = []
    plan = plan_capture(model, prompts, SPEC, **settings)
    states = [acts.sites["resid_post"] for acts in plan.run(on_read=kept.append)]
    return states, kept


def in_batch(prompts: list[Prompt], kept: Kept) -> list[Prompt]:
    return [prompt for prompt in prompts if prompt.id in kept.batch.ids]


@pytest.mark.parametrize("share_prefixes", [True, False])
@pytest.mark.parametrize(
    "sampling", [{}, {"n_samples": 3, "temperature": 1.0, "seed": 1}], ids=["greedy", "sampled"]
)
def test_answers_are_those_of_prompts_read_for_them(
    tiny_model: Model, share_prefixes: bool, sampling: dict[str, Any]
) -> None:
    settings = {"max_new_tokens": 6, "batch_size": 5, **sampling}
    _, batches = read_and_kept(
        tiny_model, QUOTED, options=OPTIONS, batch_tokens=64, share_prefixes=share_prefixes
    )
    if tiny_model.architecture.window is not None:
        assert not batches
        return
    assert len(batches) > 1
    for kept in batches:
        for prompts in (in_batch(QUOTED, kept), in_batch(QUOTED[::-1], kept)[:2]):
            found = generate(tiny_model, prompts, kept=kept, **settings)
            assert found == generate(tiny_model, prompts, **settings)


def test_states_are_the_same_bits(tiny_model: Model) -> None:
    plain = plan_capture(tiny_model, QUOTED, SPEC, options=OPTIONS).run()
    states, _ = read_and_kept(tiny_model, QUOTED, options=OPTIONS)
    for acts, with_kept in zip(plain, states, strict=True):
        assert torch.equal(acts.sites["resid_post"], with_kept)


def test_no_prompt_is_read_again(tiny_model: Model) -> None:
    if tiny_model.architecture.window is not None:
        pytest.skip("nothing is kept of this model")
    _, (kept,) = read_and_kept(tiny_model, QUOTED, options=OPTIONS)
    with counted_tokens(tiny_model) as counts:
        generate(tiny_model, QUOTED, max_new_tokens=4, kept=kept)
    assert counts[0] == len(QUOTED)
    assert sum(counts) <= 4 * len(QUOTED)


def test_interventions_are_in_what_was_kept(tiny_model: Model) -> None:
    if tiny_model.architecture.window is not None:
        pytest.skip("nothing is kept of this model")
    plain = generate(tiny_model, QUOTED, max_new_tokens=6)
    away = torch.ones(tiny_model.d_model) * torch.arange(tiny_model.d_model).cos()
    with intervene(tiny_model, [Steer("resid_post", 0, away, 8.0)]):
        _, batches = read_and_kept(tiny_model, QUOTED, options=OPTIONS)
        (kept,) = batches
        steered = generate(tiny_model, QUOTED, max_new_tokens=6, kept=kept)
        assert steered == generate(tiny_model, QUOTED, max_new_tokens=6)
    assert steered != plain


def test_a_pass_that_ends_early_keeps_nothing(tiny_model: Model) -> None:
    _, batches = read_and_kept(tiny_model, QUOTED)  # no options: over after the last block
    assert not batches


def test_a_prompt_that_was_not_read_is_refused_by_name(tiny_model: Model) -> None:
    if tiny_model.architecture.window is not None:
        pytest.skip("nothing is kept of this model")
    _, (kept,) = read_and_kept(tiny_model, QUOTED, options=OPTIONS)
    with pytest.raises(ValueError, match="kept: 'new' was not read with it"):
        generate(tiny_model, [Prompt.chat("new", "Why?")], max_new_tokens=1, kept=kept)
    with pytest.raises(ValueError, match="kept: its prompts are not read again"):
        generate(
            tiny_model, QUOTED, max_new_tokens=1, kept=kept, spec=SPEC, on_states=lambda _: None
        )


def test_a_model_is_left_as_it_was(tiny_model: Model) -> None:
    batch = shared_batch([[render(tiny_model, QUOTED[0])]], tiny_model.pad_id)
    backbone = tiny_model.architecture.backbone
    hooks = len(backbone._forward_hooks), len(backbone._forward_pre_hooks)
    with pytest.raises(RuntimeError, match="in the middle"), keeping(tiny_model, batch):
        raise RuntimeError("in the middle")
    assert (len(backbone._forward_hooks), len(backbone._forward_pre_hooks)) == hooks
