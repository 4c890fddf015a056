from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.batching import (
    common_prefix,
    padded_batch,
    plan_batches,
    shared_batch,
    shared_length,
)
from hooks.gather import Gather
from hooks.prompts import Rendered


def rendered(id: str, *tokens: int) -> Rendered:
    return Rendered(id, tokens, {"instruction": (0, len(tokens))})


prompt_lists = st.lists(
    st.lists(st.integers(1, 3), min_size=1, max_size=8), min_size=1, max_size=12
).map(lambda lists: [rendered(str(index), *tokens) for index, tokens in enumerate(lists)])


def test_a_shared_row_lays_each_prefix_once() -> None:
    batch = shared_batch([[rendered("a", 1, 2, 3), rendered("b", 1, 2, 4, 5), rendered("c", 6)]], 0)
    assert batch.token_ids.tolist() == [[1, 2, 3, 4, 5, 6]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 2, 3, 0]]
    assert [list(slots) for slots in batch.slots] == [[0, 1, 2], [0, 1, 3, 4], [5]]
    assert batch.visible[0].long().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]
    mask = batch.attention_mask(torch.float32)
    assert mask.shape == (1, 1, 6, 6)
    assert mask[0, 0, 3].tolist() == [0, 0, torch.finfo(torch.float32).min, 0, *[mask.min()] * 2]


@settings(max_examples=80, deadline=None)
@given(prompts=prompt_lists, batch_tokens=st.integers(1, 40), share=st.booleans())
def test_a_plan_holds_every_prompt_once_and_keeps_to_its_size(
    prompts: list[Rendered], batch_tokens: int, share: bool
) -> None:
    plan = plan_batches(prompts, batch_tokens=batch_tokens, share=share)
    ids = [id for planned in plan for id in planned.ids]
    assert sorted(ids) == sorted(prompt.id for prompt in prompts)
    assert plan == plan_batches(prompts[::-1], batch_tokens=batch_tokens, share=share)
    for planned in plan:
        batch = planned.lay_out(0)
        assert batch.ids == planned.ids
        assert batch.token_ids.numel() <= batch_tokens or len(batch.token_ids) == 1
        for row, slots, prompt in zip(batch.rows, batch.slots, batch.prompts, strict=True):
            assert tuple(batch.token_ids[row, list(slots)].tolist()) == prompt.token_ids
            assert batch.position_ids[row, list(slots)].tolist() == list(range(len(prompt)))
            if batch.shared:
                for depth, slot in enumerate(slots):
                    seen = batch.visible[row, slot].nonzero()[:, 0].tolist()
                    assert seen == sorted(slots[: depth + 1])


@settings(max_examples=50, deadline=None)
@given(prompts=prompt_lists)
def test_sorted_prompts_take_as_many_slots_as_they_have_distinct_prefixes(
    prompts: list[Rendered],
) -> None:
    in_order = sorted(prompts, key=lambda prompt: prompt.token_ids)
    prefixes = {p.token_ids[: end + 1] for p in prompts for end in range(len(p))}
    assert shared_length(in_order) == len(prefixes)


def test_a_prefix_comes_before_the_padding() -> None:
    prompts = [rendered("a", 1, 2, 3), rendered("b", 1, 2, 4, 5)]
    batch = padded_batch(prompts, 0, side="left", prefixes=[2] * len(prompts))
    assert batch.token_ids.tolist() == [[1, 2, 0, 3], [1, 2, 4, 5]]
    assert batch.position_ids.tolist() == [[0, 1, 0, 2], [0, 1, 2, 3]]
    assert batch.visible.tolist() == [[True, True, False, True], [True] * 4]
    assert [list(slots) for slots in batch.slots] == [[0, 1, 3], [0, 1, 2, 3]]


def test_prompts_longer_than_the_window_are_padded() -> None:
    prompts = [rendered("short", 1, 2), rendered("long", 1, 2, 3, 4)]
    plan = plan_batches(prompts, batch_tokens=100, share=True, window=3)
    assert [(planned.ids, planned.shared) for planned in plan] == [
        (("short",), True),
        (("long",), False),
    ]


def test_common_prefix() -> None:
    assert common_prefix((1, 2, 3), (1, 2, 4)) == 2
    assert common_prefix((1, 2), (1, 2, 4)) == 2
    assert common_prefix((), (1,)) == 0


def test_gather_averages_spans_of_either_side() -> None:
    prompts = [
        Rendered("a", (1, 2, 3), {"instruction": (0, 2)}),
        Rendered("b", (4, 5), {"instruction": (1, 2)}),
    ]
    sides: tuple[Any, Any] = ("left", "right")
    for side in sides:
        batch = padded_batch(prompts, 0, side=side)
        states = batch.token_ids.float()[..., None]
        gather = Gather.of(batch, ("mean_instruction", "prompt_last"), torch.device("cpu"))
        means = gather.means(gather.rows(states, "resid_post", 0))
        assert means[..., 0].tolist() == [[1.5, 3.0], [5.0, 5.0]]
