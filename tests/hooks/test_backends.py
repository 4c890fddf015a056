from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tf
from nnsight import TransformersModel
from transformer_lens.model_bridge import TransformerBridge
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

import hooks.backends.nnsight as nnsight_backend
import hooks.backends.points
import hooks.backends.transformer_lens as transformer_lens_backend
from hooks import SITES, CaptureSpec, Model, Prompt, Steer, capture, intervene, load_model, render
from hooks.architecture import Block
from hooks.backends import Backend, States, get_backend
from hooks.backends.nnsight import NnsightBackend
from hooks.batching import Batch, padded_batch, shared_batch
from tests.hooks.parity import FAMILIES, layouts_of, model_of, module_of, ragged_prompts

WRAPPERS = ("transformer_lens", "nnsight")
TEXTS = ("The sea", "The sea and the wind, and do not rhyme.", "What is yes? And no?", "no")

# What a backend does not support: the sites that it must refuse and why, by backend and architecture. An entry that
# a newer library has made needless fails, and so does one that is missing.
REFUSED: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("transformer_lens", "ctrl"): (SITES, "cannot run .*: Unsupported architecture"),
    ("transformer_lens", "falcon_new"): (SITES, "cannot run .*: split_with_sizes"),
    ("transformer_lens", "ministral"): (SITES, "cannot run .*: Unsupported architecture"),
    ("transformer_lens", "phimoe"): (SITES, "cannot run .*: Unsupported architecture"),
    # Of blocks that mix tokens by other means than attention.
    ("transformer_lens", "jamba"): (("attn_out",), "it has no such hook point"),
    ("transformer_lens", "lfm2"): (("attn_out",), "it has no such hook point"),
    ("transformer_lens", "qwen3_next"): (("attn_out",), "it has no such hook point"),
}


def build(architecture: str, attention: str = "eager") -> Model:
    """Build a new tiny random model."""
    family = FAMILIES[architecture]
    module = module_of(family.config, family.sizes, attention)
    tokenizer = model_of(architecture, "eager").tokenizer
    return Model.from_module(module, tokenizer, name=architecture, weights_id="random")


def batches(model: Model) -> list[Batch]:
    """Return ragged prompts in every layout that a model may be given, the left-padded one first."""
    return list(layouts_of(model, ragged_prompts(model)).values())


def spec_of(model: Model, *sites: str, layers: Any = "all") -> CaptureSpec:
    positions = ("mean_instruction", "prompt_last")
    return CaptureSpec(sites or model.architecture.sites, layers, positions).resolve(model.n_layers)


def assert_equal(found: States, wanted: States) -> None:
    assert set(found.sites) == set(wanted.sites)
    for site, states in wanted.sites.items():
        assert found.sites[site].dtype == torch.float32
        bound = 5e-5 * states.abs().amax(-1, keepdim=True).clamp(min=1.0)
        assert bool(((found.sites[site] - states).abs() <= bound).all()), site
    if wanted.slot_logits is not None:
        torch.testing.assert_close(found.slot_logits, wanted.slot_logits, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("architecture", FAMILIES)
@pytest.mark.parametrize("name", WRAPPERS)
def test_every_site_layer_and_layout_equals_the_reference(name: str, architecture: str) -> None:
    model = model_of(architecture, "eager")
    backend, reference = get_backend(name), get_backend("torch")
    refused, reason = REFUSED.get((name, architecture), ((), ""))
    sites = [site for site in model.architecture.sites if site not in refused]
    for site in set(refused) & set(model.architecture.sites):
        model_type = model.module.config.model_type
        message = rf"(?=.*{reason}).*model type '{model_type}': .*; use backend=\"torch\"$"
        with pytest.raises(ValueError, match=message):
            capture(model, [Prompt(id="a", text="no")], spec_of(model, site), backend=name)
    if not sites:
        return
    logits = "final_norm" not in refused and not model.architecture.readout_problem
    for batch in batches(model):
        assert backend.takes_shared or not batch.shared
        spec = spec_of(model, *sites)
        wanted = reference.read(model, batch, spec, logits=logits)
        assert_equal(backend.read(model, batch, spec, logits=logits), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_bridge_that_computes_something_else_is_refused_where_it_does(dtype: torch.dtype) -> None:
    # transformers 5 adds Falcon's ALiBi twice in eager attention, and a bridge does as eager attention does.
    model = build("falcon_alibi", attention="sdpa")
    module = model.module.to(dtype)
    model = Model.from_module(module, model.tokenizer, name="alibi", weights_id="random")
    backend = get_backend("transformer_lens")
    backend.check(model, ("embed",))
    for site in model.architecture.sites[1:]:
        with pytest.raises(ValueError, match=f"{site!r} of model type 'falcon': .* is off by"):
            backend.check(model, (site,))


def test_a_bridge_is_held_against_the_attention_that_was_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def louder(*args: Any, **kwargs: Any) -> Any:
        states, weights = sdpa(*args, **kwargs)
        return 1.5 * states, weights

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "sdpa", louder)
    module = module_of("LlamaConfig", FAMILIES["llama"].sizes, "sdpa").bfloat16()
    model = Model.from_module(module, model_of("llama", "eager").tokenizer, name="louder")
    with pytest.raises(ValueError, match=r"gives no 'attn_out' .* is off by"):
        get_backend("transformer_lens").check(model, ("attn_out",))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_proved_too(dtype: torch.dtype) -> None:
    family = FAMILIES["llama"]
    module = module_of(family.config, family.sizes, "sdpa").to(dtype)
    model = Model.from_module(module, model_of("llama", "eager").tokenizer, name="half")
    for name in WRAPPERS:
        get_backend(name).check(model, model.architecture.sites)


@pytest.mark.parametrize("name", ["torch", *WRAPPERS])
@pytest.mark.parametrize("architecture", ["gpt2", "opt", "llama"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_trap_1_a_batch_equals_the_model_on_each_prompt_alone(
    name: str, architecture: str, side: Any
) -> None:
    model = build(architecture)
    prompts = [render(model, Prompt(id=text, text=text)) for text in TEXTS]
    spec = spec_of(model, "resid_post")
    batch = padded_batch(prompts, model.pad_id, side)
    found = get_backend(name).read(model, batch, spec, logits=True)
    assert found.slot_logits is not None
    for row, prompt in enumerate(prompts):
        with torch.inference_mode():
            own = model.module(torch.tensor([prompt.token_ids]), output_hidden_states=True)
        for layer in range(model.n_layers - 1):  # the last one has been through the final norm
            state = own.hidden_states[layer + 1][0, -1]
            bound = 5e-5 * max(1.0, float(state.abs().max()))
            torch.testing.assert_close(
                found.sites["resid_post"][row, layer, 1], state, rtol=0, atol=bound
            )
        torch.testing.assert_close(found.slot_logits[row], own.logits[0, -1], rtol=0, atol=2e-4)


@pytest.mark.parametrize("name", WRAPPERS)
def test_trap_2_main_outputs_are_found_by_type(name: str) -> None:
    # Llama's attention returns a tuple, its MLP and its blocks a Tensor.
    model = build("llama")
    layer = model.module.model.layers[0]
    seen: dict[str, Any] = {}
    batch = batches(model)[0]
    with ExitStack() as stack:
        for site, part in (
            ("attn_out", layer.self_attn),
            ("mlp_out", layer.mlp),
            ("resid_post", layer),
        ):
            keep = partial(lambda site, _, __, output: seen.update({site: output}), site)
            stack.enter_context(part.register_forward_hook(keep))
        with torch.inference_mode():
            model.module(batch.token_ids, batch.attention_mask(model.dtype), batch.position_ids)
    assert [type(output) for output in seen.values()] == [tuple, torch.Tensor, torch.Tensor]
    seen["attn_out"] = seen["attn_out"][0]
    found = get_backend(name).read(model, batch, spec_of(model, *seen, layers=(0,)), logits=False)
    for site, output in seen.items():
        torch.testing.assert_close(found.sites[site][:, 0, 1], output[:, -1], rtol=0, atol=5e-5)


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("n_prompts", [1, 3])
def test_trap_2_a_wrong_shape_is_refused(
    name: str, n_prompts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("llama")
    batch = padded_batch(ragged_prompts(model)[:n_prompts], model.pad_id)
    spec = spec_of(model, "resid_post", layers=(0,))
    backend = type(get_backend(name))()
    # The proof would refuse it too, and nnsight keeps the methods that it finds when it wraps.
    module = nnsight_backend if name == "nnsight" else transformer_lens_backend
    monkeypatch.setattr(module, "gaps", lambda *_: {})
    forward = LlamaDecoderLayer.forward
    monkeypatch.setattr(
        LlamaDecoderLayer, "forward", lambda *args, **kwargs: forward(*args, **kwargs)[0]
    )
    with pytest.raises(RuntimeError, match=r"resid_post of layer 0 has shape \(\d+, 32\), not"):
        backend.read(model, batch, spec, logits=False)


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("architecture", ["gpt2", "llama", "opt"])
def test_trap_3_the_last_layer_is_not_the_final_norm(name: str, architecture: str) -> None:
    model = build(architecture)
    (prompt,) = ragged_prompts(model, (7,))
    spec = spec_of(model, "embed", "resid_pre", "resid_post", "final_norm")
    batch = padded_batch([prompt], model.pad_id)
    found = get_backend(name).read(model, batch, spec, logits=False).sites
    with torch.inference_mode():
        own = model.module(torch.tensor([prompt.token_ids]), output_hidden_states=True)
    first, second, last = (states[0, -1] for states in own.hidden_states)
    for site, layer, wanted in (
        ("embed", 0, first),
        ("resid_pre", 0, first),
        ("resid_post", 0, second),
        ("resid_pre", 1, second),
        ("final_norm", 0, last),
    ):
        torch.testing.assert_close(found[site][0, layer, 1], wanted, rtol=5e-5, atol=5e-5)
    assert float((found["resid_post"][0, 1, 1] - last).abs().max()) > 0.1
    assert model.architecture.final_norm is not None
    with torch.inference_mode():
        normed = model.architecture.final_norm(found["resid_post"][0, 1, 1])
    torch.testing.assert_close(normed, last, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize(
    ("architecture", "sites"),
    # Without means to subtract, Llama's stream stays as it was.
    [("gpt2", SITES[1:]), ("llama", ("final_norm",))],
)
def test_trap_16_a_bridge_with_folded_weights_is_refused(
    architecture: str, sites: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(architecture)
    raw = transformer_lens_backend.build_bridge_from_module

    def folded(*args: Any, **kwargs: Any) -> Any:
        bridge = raw(*args, **kwargs)
        bridge.enable_compatibility_mode()
        return bridge

    monkeypatch.setattr(transformer_lens_backend, "build_bridge_from_module", folded)
    prompts = [Prompt(id="a", text="The sea")]
    for site in sites:
        with pytest.raises(ValueError, match=f"TransformerLens gives no {site!r} of .* is off by"):
            capture(model, prompts, spec_of(model, site), backend="transformer_lens")


def test_nnsight_is_proved_once_a_model_and_refused_where_it_reads_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build("llama")
    module_at = nnsight_backend._module

    def wrong(model: Model, point: Any) -> Any:
        site, layer = point
        return module_at(model, ("resid_post" if point == ("mlp_out", 1) else site, layer))

    monkeypatch.setattr(nnsight_backend, "_module", wrong)
    backend = NnsightBackend()
    with pytest.raises(ValueError, match=r"nnsight gives no 'mlp_out' of .*'llama': it is off by"):
        backend.check(model, ("mlp_out",))
    monkeypatch.setattr(nnsight_backend, "gaps", None)
    backend.check(model, ("embed", "resid_pre", "resid_mid", "resid_post", "attn_out"))


def test_another_attention_implementation_is_seen() -> None:
    model = build("llama", attention="sdpa")
    batch, spec = batches(model)[0], spec_of(model, "resid_post")
    backend, reference = get_backend("nnsight"), get_backend("torch")
    before = backend.read(model, batch, spec, logits=False).sites["resid_post"]
    model.module.set_attn_implementation("eager")
    wanted = reference.read(model, batch, spec, logits=False).sites["resid_post"]
    assert not torch.equal(before, wanted)
    assert torch.equal(backend.read(model, batch, spec, logits=False).sites["resid_post"], wanted)


class _BrokenError(Exception):
    """Stands for any error in the middle of a forward pass."""


def fingerprint(model: Model) -> dict[str, Any]:
    """Collect what a wrapper may change about a model."""
    module = model.module
    parts = dict(module.named_modules())
    with torch.inference_mode():
        logits = module(torch.arange(6)[None]).logits
    return {
        "modules": {path: (id(part), sorted(vars(part))) for path, part in parts.items()},
        "hooks": {
            (path, table): len(hooks)
            for path, part in parts.items()
            for table, hooks in vars(part).items()
            if "_hooks" in table and isinstance(hooks, dict)
        },
        "training": [part.training for part in parts.values()],
        "tensors": {name: id(t) for name, t in module.state_dict(keep_vars=True).items()},
        "config": module.config.to_dict(),
        "attention": module.config._attn_implementation,
        "tokenizer": (
            model.tokenizer.padding_side,
            model.tokenizer.special_tokens_map,
            len(model.tokenizer),
        ),
        "logits": logits.tolist(),
    }


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("architecture", ["gpt2", "qwen3"])
def test_trap_11_the_model_is_left_as_it_was_also_by_errors_and_nested_captures(
    name: str,
    architecture: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build(architecture, attention="sdpa")
    backend = get_backend(name)
    spec = spec_of(model, "resid_mid", "resid_post")
    before = fingerprint(model)
    batch = batches(model)[0]
    wanted = backend.read(model, batch, spec, logits=True)
    assert fingerprint(model) == before

    with monkeypatch.context() as patch:
        target = nnsight_backend.Points if name == "nnsight" else hooks.backends.points.Points
        method = "states" if name == "nnsight" else "rows"

        def fail(*_: Any) -> None:
            raise _BrokenError

        patch.setattr(target, method, fail)
        with pytest.raises(_BrokenError):
            backend.read(model, batch, spec, logits=True)
    assert fingerprint(model) == before

    prompts = [Prompt(id=text, text=text) for text in TEXTS]
    outer = capture(model, prompts, spec, batch_tokens=8, backend=name)
    first = next(outer)
    inner = list(capture(model, prompts, spec, batch_tokens=8, backend=name))
    assert_same_acts([first, *outer], inner)
    assert fingerprint(model) == before
    again = backend.read(model, batch, spec, logits=True)
    assert all(torch.equal(again.sites[site], wanted.sites[site]) for site in spec.sites)


def assert_same_acts(found: list[Any], wanted: list[Any]) -> None:
    assert [acts.ids for acts in found] == [acts.ids for acts in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert all(torch.equal(one.sites[site], other.sites[site]) for site in other.sites)


def test_an_error_inside_a_trace_or_a_bridge_passes_through_and_leaves_no_hooks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build("llama")
    batch = batches(model)[0]
    before = fingerprint(model)
    mlp = tf.models.llama.modeling_llama.LlamaMLP
    for name in WRAPPERS:
        spec = spec_of(model)
        wanted = get_backend(name).read(model, batch, spec, logits=False)
        with monkeypatch.context() as patch:

            def fail(*_: Any, **__: Any) -> None:
                raise _BrokenError

            patch.setattr(torch.nn.functional, "silu", fail)
            patch.setattr(mlp, "forward", fail)
            with pytest.raises(_BrokenError):
                get_backend(name).read(model, batch, spec, logits=False)
        assert fingerprint(model) == before
        again = get_backend(name).read(model, batch, spec, logits=False)
        assert all(torch.equal(again.sites[s], wanted.sites[s]) for s in spec.sites)


@pytest.mark.parametrize("name", WRAPPERS)
def test_trap_23_an_absent_library_is_named_and_stops_nothing_else(name: str) -> None:
    code = (
        f"import sys; sys.modules[{name!r}] = None\n"
        "import hooks\n"
        "from hooks.backends import get_backend\n"
        "get_backend('torch')\n"
        f"get_backend({name!r})\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 1
    error = done.stderr.strip().splitlines()[-1]
    assert error.startswith(f"ValueError: backend: {name!r} cannot be imported: ")
    assert error.endswith(f"install it with `pip install -U {name}`")


def test_hooks_imports_neither_library() -> None:
    code = (
        "import hooks, sys; print([m for m in ('transformer_lens', 'nnsight') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("architecture", ["gpt2", "bloom"])
def test_trap_24_the_bridge_is_always_given_mask_and_positions_and_needs_no_tokenizer(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(architecture)
    assert not Path(model.tokenizer.name_or_path or "nowhere").exists()
    calls: list[dict[str, Any]] = []
    forward = TransformerBridge.forward

    @wraps(forward)
    def spy(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(TransformerBridge, "forward", spy)
    for batch in batches(model):
        calls.clear()
        get_backend("transformer_lens").read(model, batch, spec_of(model), logits=True)
        given = calls[-1]
        assert torch.equal(given["attention_mask"], batch.attention_mask(model.dtype))
        if model.architecture.takes_position_ids:
            assert torch.equal(given["position_ids"], batch.position_ids)


@pytest.mark.parametrize("name", WRAPPERS)
def test_trap_25_the_order_of_sites_is_no_matter_and_a_batch_is_one_pass(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("llama")
    backend = get_backend(name)
    sites = model.architecture.sites
    backend.check(model, sites)
    passes: list[None] = []
    wrapper: Any = TransformersModel if name == "nnsight" else TransformerBridge
    method = "trace" if name == "nnsight" else "forward"
    run = getattr(wrapper, method)

    @wraps(run)
    def count(self: Any, *args: Any, **kwargs: Any) -> Any:
        passes.append(None)
        return run(self, *args, **kwargs)

    monkeypatch.setattr(wrapper, method, count)
    for batch in batches(model):
        forwards = backend.read(model, batch, spec_of(model, *sites), logits=True)
        backwards = backend.read(model, batch, spec_of(model, *sites[::-1]), logits=True)
        assert tuple(backwards.sites) == sites[::-1]
        assert all(torch.equal(forwards.sites[s], backwards.sites[s]) for s in sites)
        # `resid_mid` needs what comes before `attn_out`.
        spec = spec_of(model, "attn_out", "resid_mid")
        middle = backend.read(model, batch, spec, logits=False)
        assert all(torch.equal(middle.sites[s], forwards.sites[s]) for s in spec.sites)
    assert len(passes) == 3 * len(batches(model))


def test_nnsight_refuses_modules_that_run_in_another_order() -> None:
    model = build("llama")
    swapped = tuple(Block(b.module, b.mlp, b.attention) for b in model.architecture.blocks)
    model.architecture = replace(model.architecture, blocks=swapped)
    spec = spec_of(model, "attn_out", "mlp_out")
    with pytest.raises(ValueError, match=r"'llama': its modules run in another order; use backend"):
        NnsightBackend().read(model, batches(model)[0], spec, logits=False)


@pytest.mark.parametrize("name", WRAPPERS)
def test_the_pass_ends_after_the_last_layer_that_is_wanted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    forward = LlamaDecoderLayer.forward

    @wraps(forward)
    def count(self: Any, *args: Any, **kwargs: Any) -> Any:
        ran.append(self.self_attn.layer_idx)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(LlamaDecoderLayer, "forward", count)
    model = build("llama")
    backend = get_backend(name)
    backend.check(model, ("resid_post",))
    batch = batches(model)[0]
    for site, layer, wanted in (("resid_pre", 0, []), ("resid_post", 1, [0, 1])):
        backend.read(model, batch, spec_of(model, site, layers=(layer,)), logits=False)
        ran.clear()
        backend.read(model, batch, spec_of(model, site, layers=(layer,)), logits=False)
        assert [index for index in ran if index > layer] == []
        assert [index for index in ran if index < layer] == wanted[:layer]


@pytest.mark.parametrize("name", WRAPPERS)
def test_interventions_and_hooks_are_refused_while_they_are_active(name: str) -> None:
    model = build("llama")
    prompts = [Prompt(id="a", text="The sea")]
    steer = Steer("resid_post", 1, torch.ones(model.d_model))
    own = list(capture(model, prompts, CaptureSpec(), backend=name))
    with (
        intervene(model, [steer]),
        pytest.raises(ValueError, match=r"does not see interventions and hooks.*layers\.1"),
    ):
        list(capture(model, prompts, CaptureSpec(), backend=name))
    handle = model.module.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="'the model' has one"):
        list(capture(model, prompts, CaptureSpec(), backend=name))
    handle.remove()
    # transformers leaves hooks of its own behind here, which change nothing.
    model.module(torch.arange(4)[None], output_attentions=True)
    assert_same_acts(list(capture(model, prompts, CaptureSpec(), backend=name)), own)


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("architecture", ["gpt2", "gpt_neox"])  # bridged by views; by copies
def test_changed_weights_and_modules_are_seen(name: str, architecture: str) -> None:
    model = build(architecture)
    batch, spec = batches(model)[0], spec_of(model)
    backend, reference = get_backend(name), get_backend("torch")
    first = backend.read(model, batch, spec, logits=True)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.1)
    wanted = reference.read(model, batch, spec, logits=True)
    assert not torch.allclose(first.sites["resid_post"], wanted.sites["resid_post"])
    assert_equal(backend.read(model, batch, spec, logits=True), wanted)
    model.module.get_input_embeddings().weight = torch.nn.Parameter(
        torch.randn_like(model.module.get_input_embeddings().weight)
    )
    wanted = reference.read(model, batch, spec, logits=True)
    assert_equal(backend.read(model, batch, spec, logits=True), wanted)


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_model_and_its_wrapper_are_freed_and_weights_are_shared(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins: list[Any] = []

    def keep(model: Model, module: Any) -> Any:
        own = {id(tensor) for tensor in model.module.parameters()}
        assert {id(tensor) for tensor in module.parameters()} == own
        twins.append(weakref.ref(module))
        return build_wrapper(model, module)

    backend: Any = type(get_backend(name))()
    backend_twins = next(value for value in vars(backend).values() if hasattr(value, "of"))
    build_wrapper = backend_twins._build
    monkeypatch.setattr(backend_twins, "_build", keep)
    model = build("llama")
    for _ in range(2):
        backend.read(model, batches(model)[0], spec_of(model), logits=True)
    assert len(twins) == 1
    gone = [weakref.ref(model), weakref.ref(model.module), *twins]
    del model
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


def test_states_can_be_trained_on() -> None:
    model = build("llama")
    for name in WRAPPERS:
        backend: Backend = get_backend(name)
        states = backend.read(model, batches(model)[0], spec_of(model), logits=True)
        for tensor in (*states.sites.values(), states.slot_logits):
            assert tensor is not None
            assert not tensor.is_inference()
            assert not tensor.requires_grad


def test_remote_is_passed_to_the_trace_and_the_block_can_travel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build("llama")
    # nnsight's dry run of a remote request: serialized, our own packages hidden, run in this process.
    travelled = NnsightBackend(remote="local")
    assert travelled.name == "nnsight (remote)"
    for batch in batches(model):
        spec = spec_of(model)
        wanted = get_backend("torch").read(model, batch, spec, logits=True)
        assert_equal(travelled.read(model, batch, spec, logits=True), wanted)

    class SentError(Exception):
        pass

    def trace(_: Any, *, remote: Any, **__: Any) -> Any:
        raise SentError(remote)

    monkeypatch.setattr(TransformersModel, "trace", trace)
    with pytest.raises(SentError, match="True"):
        NnsightBackend(remote=True).read(model, batch, spec, logits=False)


@pytest.mark.parametrize("name", WRAPPERS)
def test_the_embedded_model_is_read_alike(name: str, embedded_model: Model) -> None:
    assert_alike(name, embedded_model)


@pytest.fixture(scope="module")
def gemma3() -> Model:
    try:
        return load_model("gemma3-270m")
    except ValueError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", WRAPPERS)
def test_gemma3_is_read_alike(name: str, gemma3: Model) -> None:
    assert_alike(name, gemma3)


def assert_alike(name: str, model: Model) -> None:
    messages = ("What is the capital of France?", "Write a poem about the wind. Do not rhyme.")
    prompts = [Prompt(id=text, text=text) for text in messages]
    rendered = [render(model, prompt) for prompt in prompts]
    spec = spec_of(model)
    for batch in (
        padded_batch(rendered, model.pad_id, "left"),
        shared_batch([sorted(rendered, key=lambda p: p.token_ids)], model.pad_id),
    ):
        wanted = get_backend("torch").read(model, batch, spec, logits=True)
        found = get_backend(name).read(model, batch, spec, logits=True)
        assert_equal(replace(found, slot_logits=None), replace(wanted, slot_logits=None))
        torch.testing.assert_close(found.slot_logits, wanted.slot_logits, rtol=1e-4, atol=1e-3)


def test_the_documentation_names_what_is_refused() -> None:
    text = (Path(__file__).parents[2] / "docs" / "backends.md").read_text()
    table = text.partition("these are refused:")[2].partition("\n\nNeither")[0]
    for _, architecture in REFUSED:
        assert f"`{architecture}`" in table
