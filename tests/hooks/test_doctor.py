from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hooks import Model
from hooks.backends import States
from hooks.backends.torch import BACKEND as REFERENCE
from hooks.doctor import examine
from hooks.examination import Examination


def fresh(model: Model, module_of: Callable[..., Any]) -> Model:
    """Copy a model, so that it can be spoiled."""
    return Model.from_module(module_of(model.module.config), model.tokenizer, name=model.name)


@pytest.fixture
def llama(tiny_model_of: Callable[..., Model], module_of: Callable[..., Any]) -> Model:
    return fresh(tiny_model_of("llama"), module_of)


def test_a_good_model_agrees_with_itself(tiny_model: Model) -> None:
    found = examine(tiny_model, ("torch",))
    assert found.problems == ()
    assert found.sites == tiny_model.architecture.sites
    assert found.branches.sum.holds
    assert found.readout.holds
    assert found.sharing.holds
    assert found.padding["left"].holds
    assert found.padding["right"].holds
    assert len(found.magnitudes) == 3
    assert all(0 < largest < 1000 for largest in found.magnitudes)
    for finding in (found.branches.sum, found.readout, found.sharing, *found.padding.values()):
        assert finding.difference is not None
        assert 0 <= finding.difference <= 5e-5
    # Layouts round differently: a difference of nothing at all would mean that nothing was compared.
    assert max(finding.difference or 0 for finding in found.padding.values()) > 0
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["problems"] == []


@pytest.mark.parametrize(
    ("family", "parts", "writes_bos", "system"),
    [
        ("gpt2", ("attn", "mlp", "sequential"), False, "accepted"),
        ("llama", ("self_attn", "mlp", "sequential"), True, "accepted"),
        ("gpt_neox", ("attention", "mlp", "parallel"), False, "folded: refused"),
        (
            "gemma3",
            ("post_attention_layernorm", "post_feedforward_layernorm", "sequential"),
            True,
            "accepted",
        ),
    ],
)
def test_parts_and_tokens_are_named(
    tiny_model_of: Callable[..., Model],
    family: str,
    parts: tuple[str, str, str],
    writes_bos: bool,
    system: str,
) -> None:
    found = examine(tiny_model_of(family), ())
    assert (found.branches.attention, found.branches.mlp, found.branches.order) == parts
    assert found.tokenizer.template_writes_bos is writes_bos
    assert found.tokenizer.system_role == system
    assert found.window == (128 if family == "gemma3" else None)


def test_templates_that_drop_the_system_role_or_write_two_bos_are_named(
    llama: Model, tokenizer_of: Callable[..., Any]
) -> None:
    template = "{{ bos_token }}{{ bos_token }}{{ messages[-1]['content'] }}"
    model = replace(llama, tokenizer=tokenizer_of(template, bos="<s>", eos="</s>"))
    found = examine(model, ())
    assert found.tokenizer.system_role == "folded: dropped"
    assert found.problems == ("BOS: prompts begin with [2] of them",)


def test_a_base_model_has_no_template(llama: Model, tokenizer_of: Callable[..., Any]) -> None:
    found = examine(replace(llama, tokenizer=tokenizer_of(None, bos=None, eos="</s>")), ())
    assert not found.tokenizer.has_template
    assert found.to_dict()["tokenizer"]["prompt_format"] == "completion"
    assert (found.tokenizer.bos, found.tokenizer.system_role) == (None, "accepted")
    assert found.problems == ()


def scale_mlp(model: Model, layer: int) -> None:
    """Let a block add its MLP's output one and a half times."""
    block = model.module.model.layers[layer]
    added: list[Tensor] = []
    block.mlp.register_forward_hook(lambda _, __, output: added.append(output))
    block.register_forward_hook(lambda _, __, output: output + 0.5 * added.pop())


def test_a_block_that_adds_something_else_is_caught_and_named(llama: Model) -> None:
    scale_mlp(llama, 1)
    found = examine(llama, ())
    (problem,) = found.problems
    assert problem.startswith("pre + attn + mlp == post: pre + attn + mlp of layer 1 is off by")
    assert found.branches.sum.difference is not None
    assert found.branches.sum.difference > 1e-2


def test_a_block_that_adds_something_else_before_loading_has_no_branches(llama: Model) -> None:
    scale_mlp(llama, 1)
    model = Model.from_module(llama.module, llama.tokenizer, name="scaled")
    found = examine(model, ())
    assert found.branches.attention == ""
    assert found.branches.sum.note.startswith("in block 1 no two modules add up")
    assert found.sites == ("embed", "resid_pre", "resid_post", "final_norm")
    assert found.problems == ()


def test_a_wrong_readout_and_wrong_padding_are_caught(
    tiny_model_of: Callable[..., Model], module_of: Callable[..., Any]
) -> None:
    model = fresh(tiny_model_of("gpt2"), module_of)
    readout = model.architecture.readout
    assert readout is not None
    model.architecture = replace(
        model.architecture, readout=replace(readout, factor=1.1), takes_position_ids=False
    )
    problems = examine(model, ()).problems
    # Shared rows and left padding count positions that GPT-2 would otherwise take from the slots.
    assert [problem.partition(":")[0] for problem in problems] == [
        "readout",
        "shared prefixes",
        "padding on the left",
    ]


def test_layers_that_float16_cannot_hold_are_named(llama: Model) -> None:
    # As in Gemma and SmolLM2, it is the first token whose states are huge.
    with torch.no_grad():
        llama.module.get_input_embeddings().weight[llama.tokenizer.bos_token_id] *= 1e6
    found = examine(llama, ())
    assert found.overflowing == (0, 1, 2)
    assert all(largest > 65_504 for largest in found.magnitudes)
    assert found.problems == ()
    llama.module.half()  # Loaded like this it would be refused.
    found = examine(llama, ())
    assert found.magnitudes == (float("inf"),) * 3
    (problem,) = found.problems
    assert problem.startswith("residual stream: not finite in float16 from layer 0 on; choose bf")
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["magnitudes"] == [None] * 3


class Stub:
    """A backend that reads as the reference does, and then does as it is told."""

    name = "nnsight"
    libraries: tuple[str, ...] = ()
    takes_shared = True

    def __init__(self, change: Callable[[dict[str, Tensor]], None], refused: str = "") -> None:
        self._change = change
        self._refused = refused

    def check(self, model: Model, sites: tuple[str, ...]) -> None:
        if self._refused in sites:
            raise ValueError(f"backend: no {self._refused}\nhere")

    def read(self, model: Model, batch: Any, spec: Any, *, logits: bool) -> States:
        sites = dict(REFERENCE.read(model, batch, spec, logits=logits).sites)
        self._change(sites)
        return States(sites)


@pytest.fixture
def examined_by(monkeypatch: pytest.MonkeyPatch, llama: Model) -> Callable[..., Examination]:
    def examined(stub: Any) -> Examination:
        def get(name: str) -> Any:
            if name == "torch":
                return REFERENCE
            if isinstance(stub, Exception):
                raise stub
            return stub

        monkeypatch.setattr("hooks.doctor.get_backend", get)
        return examine(llama, ("torch", "nnsight"))

    return examined


def test_a_backend_that_lies_is_caught_and_named(examined_by: Callable[..., Examination]) -> None:
    def lie(sites: dict[str, Tensor]) -> None:
        sites["attn_out"][1, 2, 0] *= 1.01

    found = examined_by(Stub(lie))
    (backend,) = found.backends
    assert not backend.states.agrees
    assert backend.states.difference is not None
    assert backend.states.difference == pytest.approx(1e-2, rel=1e-3)
    (problem,) = found.problems
    assert problem.startswith("backend nnsight: attn_out of layer 2, padded on the ")
    assert problem.endswith("is off by 0.01")


def test_a_backend_that_gives_nan_is_caught(examined_by: Callable[..., Examination]) -> None:
    def spoil(sites: dict[str, Tensor]) -> None:
        sites["embed"][0, 0, 0, 0] = float("nan")

    found = examined_by(Stub(spoil))
    assert found.problems == ("backend nnsight: embed, padded on the right is off by inf",)


def test_a_backend_that_refuses_a_site_is_held_to_the_others(
    examined_by: Callable[..., Examination],
) -> None:
    def drop_nothing(sites: dict[str, Tensor]) -> None:
        assert "mlp_out" not in sites

    found = examined_by(Stub(drop_nothing, refused="mlp_out"))
    (backend,) = found.backends
    assert backend.refused == {"mlp_out": "backend: no mlp_out here"}
    assert backend.states.holds
    assert backend.states.difference == 0


def test_a_backend_that_cannot_run_or_breaks_is_a_finding(
    examined_by: Callable[..., Examination],
) -> None:
    def fail(sites: dict[str, Tensor]) -> None:
        raise KeyError("hook")

    (backend,) = examined_by(ValueError("backend: not installed")).backends
    assert (backend.states.holds, backend.states.agrees) == (False, True)
    assert backend.states.note == "backend: not installed"
    found = examined_by(Stub(fail))
    assert found.problems == ("backend nnsight: failed with KeyError: 'hook'",)


def test_unknown_backends_are_refused(llama: Model) -> None:
    with pytest.raises(ValueError, match="unknown backend 'jax'; choose from torch, transfor"):
        examine(llama, ("jax",))
