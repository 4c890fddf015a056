from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
import torch

from hooks import CaptureSpec, Model, Patch, Prompt, Steer, capture, intervene, plan_capture, render
from hooks import fingerprint as fingerprint_module
from hooks import plan as plan_module
from hooks.backends import States
from hooks.backends.torch import Recorder
from hooks.batching import Batch
from hooks.prompts import truncated

PROMPTS = [
    Prompt.chat(f"p{n}", "What is the capital? " * (1 + n % 4) + "yes" * n) for n in range(12)
]
SPEC = CaptureSpec(layers=(0, 2), positions=("instruction_last", "prompt_last"))


class FakeBackend:
    """Gives every item its own number, and fails where it is told to."""

    name = "fake"
    libraries: tuple[str, ...] = ()
    takes_shared = False

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.checked: list[tuple[str, ...]] = []
        self.batches: list[Batch] = []

    def check(self, model: Model, sites: tuple[str, ...]) -> None:
        self.checked.append(sites)

    def read(self, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> States:
        if self.error is not None:
            raise self.error
        self.batches.append(batch)
        numbers = torch.tensor([float(id[1:]) for id in batch.ids])
        shape = (len(numbers), len(spec.layers), len(spec.positions), model.d_model)
        return States({"resid_post": numbers[:, None, None, None].expand(shape).clone()})


def test_a_plan_depends_on_the_prompts_and_not_on_their_order(tiny_model: Model) -> None:
    plan = plan_capture(tiny_model, PROMPTS, SPEC, batch_tokens=60)
    assert len(plan.batches) > 1
    again = plan_capture(tiny_model, PROMPTS[::-1], SPEC, batch_tokens=60)
    assert again.batches == plan.batches
    assert again.fingerprint == plan.fingerprint
    assert sorted(id for batch in plan.batches for id in batch) == sorted(p.id for p in PROMPTS)


def test_the_fingerprint_names_what_changes_the_last_bits(tiny_model: Model) -> None:
    def differs(*names: str, prompts: Any = PROMPTS, **settings: Any) -> bool:
        plan = plan_capture(tiny_model, prompts, SPEC, **settings)
        changed = {name for name in fingerprint if plan.fingerprint[name] != fingerprint[name]}
        return changed == set(names)

    fingerprint = plan_capture(tiny_model, PROMPTS, SPEC).fingerprint
    assert differs("batching", share_prefixes=False)
    assert differs("batching", batch_tokens=100)
    assert differs("backend", "batching", backend=FakeBackend())
    assert differs("options", options={"yes": ["yes"]})
    assert differs("prompts", prompts=[*PROMPTS[1:], Prompt.chat("p0", "What is the sea?")])
    assert differs("prompts", prompts=[*PROMPTS[1:], Prompt.chat("q0", "What is the capital? ")])
    quoted = Prompt.chat("p0", "What is the capital? ", quote="capital")
    assert differs("prompts", prompts=[*PROMPTS[1:], quoted])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        assert differs("threads")
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("share_prefixes", [True, False])
def test_trap_15_what_is_left_is_run_in_the_batches_of_an_unbroken_run(
    tiny_model: Model, share_prefixes: bool
) -> None:
    plan = plan_capture(tiny_model, PROMPTS, SPEC, batch_tokens=120, share_prefixes=share_prefixes)
    whole = {acts.ids: acts.sites["resid_post"] for acts in plan.run()}
    assert tuple(whole) == plan.batches
    done = {id for ids in plan.batches[1:] for id in ids[1:]} | {plan.batches[0][0]}
    for acts in plan.run(done):
        assert torch.equal(acts.sites["resid_post"], whole[acts.ids])
    # The same prompts batched anew are equal up to rounding alone.
    (single,) = capture(tiny_model, PROMPTS[:1], SPEC)
    (row,) = (states[ids.index("p0")] for ids, states in whole.items() if "p0" in ids)
    torch.testing.assert_close(row, single.sites["resid_post"][0], rtol=0, atol=5e-5)


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_copies_that_are_under_way_come_in_order(
    tiny_model: Model, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """On a GPU the next batch is computed before the copy of the last one is waited for."""
    waiting: list[int] = []
    to_host = plan_module.to_host

    def counted(tensors: Any) -> Callable[[], Any]:
        copy = to_host(tensors)
        waiting.append(1)

        def wait() -> Any:
            waiting.pop()
            return copy()

        return wait

    monkeypatch.setattr(plan_module, "to_host", counted)
    monkeypatch.setattr(plan_module, "_batches_ahead", lambda device: ahead)
    backend = FakeBackend()
    plan = plan_capture(tiny_model, PROMPTS, SPEC, batch_tokens=120, backend=backend)
    n = len(plan.batches)
    assert n > 4
    found: list[str] = []
    for index, acts in enumerate(plan.run()):
        assert len(waiting) == min(ahead, n - 1 - index)
        assert acts.sites["resid_post"][:, 0, 0, 0].tolist() == [float(id[1:]) for id in acts.ids]
        found += acts.ids
    assert found == [id for batch in plan.batches for id in batch]


def test_a_backend_of_ones_own_is_asked_first_and_given_what_it_takes(tiny_model: Model) -> None:
    backend = FakeBackend()
    plan = plan_capture(tiny_model, PROMPTS, SPEC, backend=backend)
    assert backend.checked == [("resid_post",)]
    assert backend.batches == []
    list(plan.run())
    assert not any(batch.shared for batch in backend.batches)


def test_a_batch_too_large_for_the_device_names_the_setting(tiny_model: Model) -> None:
    backend = FakeBackend(torch.cuda.OutOfMemoryError("CUDA out of memory"))
    plan = plan_capture(tiny_model, PROMPTS, SPEC, backend=backend)
    with pytest.raises(RuntimeError, match=r"a batch of \d+ tokens; give a smaller batch_tokens"):
        list(plan.run())


def test_interventions_are_part_of_the_fingerprint_and_must_last(tiny_model: Model) -> None:
    raw = plan_capture(tiny_model, PROMPTS, SPEC)
    vector = torch.ones(tiny_model.d_model)
    digests = set()
    for coefficient in (1.0, 2.0, 2.0):
        with intervene(tiny_model, [Steer("resid_post", 0, vector, coefficient)]):
            steered = plan_capture(tiny_model, PROMPTS, SPEC)
            digests.add(steered.fingerprint["interventions"])
            with pytest.raises(RuntimeError, match="interventions: others are active than when"):
                next(raw.run())
    assert len(digests) == 2
    assert raw.fingerprint["interventions"] is None
    with pytest.raises(RuntimeError, match="interventions: others are active than when"):
        next(steered.run())
    with intervene(tiny_model, [Patch("resid_post", 0, {"p0": vector}, ("prompt_last",))]):
        patched = plan_capture(tiny_model, PROMPTS, SPEC)
    assert patched.fingerprint["interventions"] not in digests
    assert len(list(raw.run())) == len(raw.batches)


def test_a_library_of_another_version_is_another_capture(
    tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = FakeBackend()
    backend.libraries = ("einops", "torch")
    fingerprint = plan_capture(tiny_model, PROMPTS, SPEC, backend=backend).fingerprint
    assert fingerprint["einops"] == version("einops")
    monkeypatch.setattr(fingerprint_module, "version", lambda library: "0")
    again = plan_capture(tiny_model, PROMPTS, SPEC, backend=backend).fingerprint
    differing = {name for name, value in again.items() if fingerprint[name] != value}
    assert differing == {"einops", "torch", "transformers"}
    assert fingerprint["device"] == "cpu"


def test_a_module_that_is_not_called_is_noticed(tiny_model: Model) -> None:
    """Else the memory that its states were to go to would be taken for them."""
    batch = plan_capture(tiny_model, PROMPTS, SPEC).lay_out(0)
    recorder = Recorder(tiny_model, batch, SPEC)
    with pytest.raises(RuntimeError, match="resid_post number 0 did not pass by"):
        recorder.activations()


@pytest.fixture
def long_prompt() -> Prompt:
    return Prompt.chat("long", "What is the capital? " * 200, system="Answer in one word.")


def test_a_prompt_longer_than_the_context_is_refused_or_cut(
    tiny_model: Model, long_prompt: Prompt
) -> None:
    with pytest.raises(
        ValueError, match=r"prompts: 'long' has \d+ tokens, but the model reads at most 256"
    ):
        plan_capture(tiny_model, [*PROMPTS, long_prompt], SPEC)
    plan = plan_capture(tiny_model, [*PROMPTS, long_prompt], SPEC, truncate=True)
    assert plan.fingerprint["truncated"] == ["long"]
    assert {id for acts in plan.run() for id in acts.ids} == {*(p.id for p in PROMPTS), "long"}


def test_only_the_end_of_the_instruction_is_cut(tiny_model: Model, long_prompt: Prompt) -> None:
    whole = render(tiny_model, long_prompt)
    start, end = whole.spans["instruction"]
    short = truncated(whole, 100)
    assert len(short) == 100
    assert short.n_cut == len(whole) - 100
    kept = end - short.n_cut
    assert short.token_ids == whole.token_ids[:kept] + whole.token_ids[end:]
    assert short.spans["instruction"] == (start, kept)
    assert truncated(whole, len(whole)) is whole
    with pytest.raises(ValueError, match="would leave nothing of it or cut the quote; shorten it"):
        truncated(whole, start + len(whole) - end)


def test_a_quote_is_not_cut(tiny_model: Model) -> None:
    prompt = Prompt.chat("a", "What is the capital? " * 9 + "Paris and yes", quote="Paris")
    rendered = render(tiny_model, prompt)
    assert truncated(rendered, len(rendered) - 1).n_cut == 1
    with pytest.raises(ValueError, match="would leave nothing of it or cut the quote"):
        truncated(rendered, len(rendered) - 10)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_states_from_a_gpu_are_those_of_the_cpu(tiny_model: Model) -> None:
    wanted = {
        id: row
        for a in capture(tiny_model, PROMPTS, SPEC)
        for id, row in zip(a.ids, a.sites["resid_post"], strict=True)
    }
    tiny_model.module.to("cuda")
    try:
        options = {"yes": ["yes"], "no": ["no"]}
        for acts in capture(tiny_model, PROMPTS, SPEC, batch_tokens=120, options=options):
            assert acts.sites["resid_post"].device.type == "cpu"
            assert not acts.sites["resid_post"].is_pinned()
            assert set(acts.option_logprobs) == {"yes", "no"}
            for id, row in zip(acts.ids, acts.sites["resid_post"], strict=True):
                torch.testing.assert_close(row, wanted[id], rtol=1e-3, atol=1e-3)
    finally:
        tiny_model.module.to("cpu")
