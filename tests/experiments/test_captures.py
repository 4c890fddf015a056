"""Captures that are killed, run out of disk, meet NaN, or are picked up with something changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from activations_cache import ActivationsCache, NonFiniteError, verify
from experiments.captures import capture_into
from experiments.progress import Advance, Silent
from hooks import CaptureSpec, Model, Prompt, capture, load_model, plan_capture
from hooks.weights import EMBEDDED

PROMPTS = [
    Prompt.chat(f"p{n:02d}", "What is the capital? " * (1 + n % 4) + "yes " * n) for n in range(20)
]
SPEC = CaptureSpec(layers=(0, 2), positions=("instruction_last", "prompt_last"))


def columns(cache: ActivationsCache) -> dict[Any, np.ndarray]:
    ids = sorted(cache.ids)
    return {
        (site, layer, position): cache.read(site, layer=layer, position=position, ids=ids)
        for site, layer, position in cache.cells()
    }


def assert_same_bits(a: ActivationsCache, b: ActivationsCache) -> None:
    assert sorted(a.ids) == sorted(b.ids)
    left, right = columns(a), columns(b)
    assert left.keys() == right.keys()
    for cell, values in left.items():
        np.testing.assert_array_equal(values.view(np.uint32), right[cell].view(np.uint32))


class Counter(Silent):
    """Counts the steps of stages."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        yield self.steps.append


def test_items_are_counted_and_a_finished_capture_runs_nothing(
    tiny_model_of: Callable[..., Model], tmp_path: Path
) -> None:
    model = tiny_model_of("llama")
    first, second = Counter(), Counter()
    cache = capture_into(tmp_path / "c", model, PROMPTS, SPEC, reporter=first, batch_tokens=100)
    assert sum(first.steps) == len(PROMPTS)
    assert len(first.steps) > 3
    assert sorted(cache.ids) == [prompt.id for prompt in PROMPTS]
    with model.architecture.blocks[0].module.register_forward_pre_hook(pytest.fail):
        capture_into(tmp_path / "c", model, PROMPTS, SPEC, reporter=second, batch_tokens=100)
    assert second.steps == [len(PROMPTS)]


def test_a_capture_is_picked_up_with_the_threads_that_it_began_with(
    tiny_model_of: Callable[..., Model], tmp_path: Path
) -> None:
    model = tiny_model_of("llama")
    before = torch.get_num_threads()
    seen: list[int] = []

    def see(*_: Any) -> None:
        seen.append(torch.get_num_threads())
        if len(seen) == 2:
            raise KeyboardInterrupt

    block = model.architecture.blocks[0].module
    with block.register_forward_pre_hook(see), pytest.raises(KeyboardInterrupt):
        capture_into(tmp_path / "c", model, PROMPTS, SPEC, batch_tokens=60)
    try:
        torch.set_num_threads(before + 1)
        with block.register_forward_pre_hook(see):
            capture_into(tmp_path / "c", model, PROMPTS, SPEC, batch_tokens=60)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {before}
    assert len(seen) > 2


def test_layers_and_positions_are_added_on_request_alone(
    tiny_model_of: Callable[..., Model], tmp_path: Path
) -> None:
    model = tiny_model_of("llama")
    wide = CaptureSpec(layers=(0, 1, 2), positions=("instruction_last", "prompt_last"))
    narrow = CaptureSpec(layers=(1,), positions=("prompt_last",))
    capture_into(tmp_path / "grown", model, PROMPTS, narrow, batch_tokens=100)
    with pytest.raises(ValueError, match=r"spec: cache .*layers only here: 0, 2; .*extend"):
        capture_into(tmp_path / "grown", model, PROMPTS, wide, batch_tokens=100)
    grown = capture_into(tmp_path / "grown", model, PROMPTS, wide, batch_tokens=100, extend=True)
    whole = capture_into(tmp_path / "whole", model, PROMPTS, wide, batch_tokens=100)
    assert_same_bits(grown, whole)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("weights", "weights is"),
        ("template", "template is"),
        ("dtype", "dtype is 'float32' there and 'bfloat16' here"),
        ("prompt", "prompts is"),
        ("batching", "batching is '2048 tokens, shared prefixes' there and '2048 tokens, padded'"),
        ("spec", "spec: cache .*positions only there: instruction_last"),
    ],
)
def test_a_changed_model_template_prompt_or_spec_is_refused_by_name(
    tiny_model_of: Callable[..., Model],
    module_of: Callable[..., Any],
    tokenizer_of: Callable[..., Any],
    tmp_path: Path,
    change: str,
    field: str,
) -> None:
    model = tiny_model_of("llama")
    capture_into(tmp_path / "c", model, PROMPTS, SPEC)
    before = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
    prompts, spec, settings = PROMPTS, SPEC, {}
    if change == "weights":
        model = tiny_model_of("llama", seed=1)
    elif change == "template":
        template = "{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}"
        tokenizer = tokenizer_of(template, bos="<s>", eos="</s>")
        model = Model.from_module(model.module, tokenizer, name=model.name)
    elif change == "dtype":
        half = module_of(model.module.config).to(torch.bfloat16)
        model = Model.from_module(half, model.tokenizer, name=model.name)
    elif change == "prompt":
        prompts = [*PROMPTS[:-1], Prompt.chat(PROMPTS[-1].id, "Another?")]
    elif change == "batching":
        settings = {"share_prefixes": False}
    else:
        spec = CaptureSpec(layers=(0, 2), positions=("prompt_last",))
    with pytest.raises(ValueError, match=field) as refusal:
        capture_into(tmp_path / "c", model, prompts, spec, **settings)
    assert "\n" not in str(refusal.value)
    assert {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()} == before


def test_trap_09_a_capture_holds_no_more_than_what_it_yields(
    tiny_model_of: Callable[..., Model],
) -> None:
    from experiments.bench.timing import peak_bytes
    from hooks.backends.torch import model_inputs

    model = tiny_model_of("llama")
    prompts = [Prompt.chat(f"p{n}", "yes " * 150 + str(n)) for n in range(8)]
    spec = CaptureSpec(sites=("resid_pre", "resid_mid", "resid_post"))
    plan = plan_capture(model, prompts, spec, batch_tokens=4096, share_prefixes=False)

    def bare() -> None:
        batch = plan.lay_out(0)
        with torch.inference_mode():
            model.architecture.backbone(**model_inputs(model, batch))

    yielded = 8 * 3 * 3 * 32 * 4
    everything = plan.lay_out(0).token_ids.numel() * 3 * 3 * 32 * 4
    cpu = model.device
    extra = peak_bytes(lambda: list(plan.run()), cpu) - peak_bytes(bare, cpu)
    assert extra <= 1.2 * yielded + 2048  # indices of the positions
    assert everything > 50 * yielded


def test_a_nan_from_a_model_is_named_and_what_came_before_is_kept(
    tiny_model_of: Callable[..., Model], tmp_path: Path
) -> None:
    model = tiny_model_of("llama")
    plan = plan_capture(model, PROMPTS, SPEC, batch_tokens=60)
    bad = plan.batches[-1][0]
    calls: list[int] = []

    def spoil(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return output * float("nan") if len(calls) == len(plan.batches) else output

    with (
        model.architecture.blocks[2].module.register_forward_hook(spoil),
        pytest.raises(NonFiniteError, match=rf"item '{bad}', site resid_post, layer 2, position"),
    ):
        capture_into(tmp_path / "c", model, PROMPTS, SPEC, batch_tokens=60)
    kept = ActivationsCache.open(tmp_path / "c")
    assert set(kept.ids) == {id for batch in plan.batches[:-1] for id in batch}
    mended = capture_into(tmp_path / "c", model, PROMPTS, SPEC, batch_tokens=60)
    whole = capture_into(tmp_path / "w", model, PROMPTS, SPEC, batch_tokens=60)
    assert_same_bits(mended, whole)


def test_float16_cannot_hold_gemma_and_the_other_types_give_back_what_they_were_given(
    tmp_path: Path,
) -> None:
    try:
        EMBEDDED["gemma3-270m"].find()
    except ValueError as error:
        pytest.skip(str(error))
    model = load_model("gemma3-270m", device="cpu")
    # The first token is where Gemma's residuals are largest: here it is the whole of a text.
    prompts = [Prompt(id=text, text=text) for text in ("The capital of France is", "<bos>")]
    spec = CaptureSpec(layers=(0, 14), positions=("mean_instruction", "prompt_last"))
    (acts,) = capture(model, prompts, spec)
    states = acts.sites["resid_post"]
    item = acts.ids.index("<bos>")
    assert float(states[item, 1].abs().max()) > 65_504 > float(states[1 - item].abs().max())
    with pytest.raises(
        NonFiniteError,
        match=r"item '<bos>', site resid_post, layer 14, position mean_instruction: "
        r"-?\d{5,6}\.\d+ in dimension \d+ is too large for float16; .*bfloat16",
    ):
        capture_into(tmp_path / "float16", model, prompts, spec, dtype="float16")
    for dtype, cast in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        cache = capture_into(tmp_path / dtype, model, prompts, spec, dtype=dtype)  # type: ignore[arg-type]
        for index, layer in enumerate(spec.layers):
            found = cache.read("resid_post", layer=layer, position="prompt_last", ids=acts.ids)  # type: ignore[arg-type]
            wanted = states[:, index, 1].to(cast).float().numpy()
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_25_kills_cost_nothing(embedded_model: Model, tmp_path: Path) -> None:
    """In a process of its own, which forks before torch has started any thread."""
    script = [sys.executable, "-m", "tests.experiments.kill_captures", str(tmp_path), "25"]
    root = Path(__file__).parents[2]
    result = subprocess.run(script, cwd=root, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stderr
    whole, killed = (ActivationsCache.open(tmp_path / name) for name in ("whole", "killed"))
    assert len(killed.ids) == len(set(killed.ids)) == 72
    assert_same_bits(killed, whole)
    assert verify(killed.path).problems == ()
    assert result.stdout.splitlines()[-1] == "25 kills"
