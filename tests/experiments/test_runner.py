"""The runner: equal prompts run once, samples by content, finished work kept."""

from pathlib import Path

import numpy as np
import pytest

from experiments.behavior import LocalRunner
from experiments.behavior import runner as runner_module
from hooks import CaptureSpec, Model, Prompt, generate, plan_capture
from tests.conftest import make_tiny_model


@pytest.fixture(scope="module")
def model() -> Model:
    return make_tiny_model("llama")


PROMPTS = [
    Prompt.chat("a", "sea wind"),
    Prompt.chat("b", "poem"),
    Prompt.chat("c", "sea wind"),
]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []

    def counting(model: Model, prompts: list[Prompt], **settings: object) -> list:
        sizes.append(len(prompts))
        return generate(model, prompts, **settings)

    monkeypatch.setattr(runner_module, "generate", counting)
    return sizes


def test_equal_prompts_are_run_once_and_keep_their_ids(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = counted(monkeypatch)
    found = LocalRunner(model, samples=3, seed=1).complete(PROMPTS, max_new_tokens=4)
    assert sizes == [2]
    assert [one.id for own in found for one in own] == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    assert [one.text for one in found[0]] == [one.text for one in found[2]]
    assert len({one.text for own in found for one in own}) > 1


def test_samples_do_not_depend_on_what_else_is_asked(model: Model) -> None:
    together = LocalRunner(model, samples=2, seed=5).complete(PROMPTS, max_new_tokens=4)
    alone = LocalRunner(model, samples=2, seed=5).complete(PROMPTS[1:2], max_new_tokens=4)
    assert together[1] == alone[0]
    greedy = LocalRunner(model, samples=2, seed=5).complete(PROMPTS, max_new_tokens=4, samples=1)
    assert [len(own) for own in greedy] == [1, 1, 1]
    direct = generate(model, [PROMPTS[1]], max_new_tokens=4)
    assert greedy[1][0].text == direct[0].text


def test_what_is_finished_is_not_done_again(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [Prompt.chat(str(i), "sea " * (1 + i % 7) + str(i)) for i in range(100)]
    whole = LocalRunner(model, store=tmp_path / "whole.jsonl").complete(prompts, max_new_tokens=3)
    store = tmp_path / "torn.jsonl"
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(lines[:70]) + lines[70][:25])
    sizes = counted(monkeypatch)
    assert LocalRunner(model, store=store).complete(prompts, max_new_tokens=3) == whole
    # The first chunk was whole; the torn one is generated as it was, for the same batch.
    assert sizes == [100 - runner_module.CHUNK]
    assert LocalRunner(model, store=store).complete(prompts, max_new_tokens=3) == whole
    assert len(sizes) == 1


def test_what_a_capture_has_read_is_answered_once(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = LocalRunner(model).complete(PROMPTS, max_new_tokens=4)
    run = LocalRunner(model, store=tmp_path / "s.jsonl")
    spec = CaptureSpec(sites=("final_norm",), positions=("prompt_last",))
    sizes = counted(monkeypatch)
    plan = plan_capture(model, PROMPTS, spec, options={"yes": ["yes"]})
    for _ in range(2):  # the second time, all of it is in the store
        for _ in plan.run(on_read=lambda kept: run.complete_read(PROMPTS, 4, kept)):
            pass
    assert run.complete(PROMPTS, max_new_tokens=4) == wanted
    assert sizes == [2]
    with pytest.raises(ValueError, match="store: None keeps no answers"):
        for _ in plan.run(on_read=lambda kept: LocalRunner(model).complete_read(PROMPTS, 4, kept)):
            pass


def test_other_settings_are_other_completions(model: Model, tmp_path: Path) -> None:
    run = LocalRunner(model, store=tmp_path / "s.jsonl")
    short = run.complete(PROMPTS, max_new_tokens=2)
    long = run.complete(PROMPTS, max_new_tokens=5)
    assert any(len(b[0].text) > len(a[0].text) for a, b in zip(short, long, strict=True))


def at_once(text: str) -> bool:
    return True


def never(text: str) -> bool:
    return False


def test_a_shared_prompt_goes_on_until_all_who_asked_have_enough(model: Model) -> None:
    run = LocalRunner(model)
    full = run.complete(PROMPTS, max_new_tokens=12)
    cut = run.complete(PROMPTS, max_new_tokens=12, decided=[at_once, at_once, at_once])
    assert any(len(a[0].text) < len(b[0].text) for a, b in zip(cut, full, strict=True))
    mixed = run.complete(PROMPTS, max_new_tokens=12, decided=[at_once, at_once, never])
    assert mixed[0][0].text == mixed[2][0].text == full[0][0].text
    with pytest.raises(ValueError, match="shorter"):
        run.complete(PROMPTS, max_new_tokens=12, decided=[at_once])


def test_option_logprobs_are_those_of_the_model(model: Model) -> None:
    from hooks import option_logprobs

    options = {"A": ["A"], "B": ["B"]}
    found = LocalRunner(model).option_logprobs(PROMPTS, options)
    direct = option_logprobs(model, PROMPTS, options)
    for name in options:
        np.testing.assert_allclose(found[name], direct[name].numpy(), atol=1e-5)
