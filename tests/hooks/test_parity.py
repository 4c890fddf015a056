"""Every family, layout and attention against a single unpadded forward pass of transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hooks import (
    Activations,
    CaptureSpec,
    Kept,
    Model,
    Prompt,
    Steer,
    capture,
    generate,
    intervene,
    load_model,
    plan_capture,
    render,
)
from hooks.completions import stop_tokens
from hooks.proof import prove_architecture
from hooks.sampling import Sampling, row_seed
from hooks.weights import EMBEDDED
from tests.hooks.parity import (
    FAMILIES,
    REAL,
    REFUSED,
    VARIANTS,
    Family,
    error_of,
    largest_errors,
    long_rope,
    model_of,
    module_of,
    tokenizer,
)

TOLERANCE = 5e-5
TEXTS = [f"{'yes no, ' * (n % 7)}what is the capital {n}?"[n % 5 :] for n in range(33)]


def check_errors(model: Model, family: Family, errors: dict[tuple[str, str], float]) -> None:
    sites = {site for _, site in errors}
    wanted = set(model.architecture.sites) | {"logits"}
    if not family.hidden_states:
        wanted -= {"final_norm"}
    if "attn_out" not in family.missing:
        wanted |= {"sum"}
    if model.architecture.readout_problem:
        wanted -= {"logits"}
    assert sites == wanted
    layouts = {"left", "right", "shared"} if family.shares else {"left", "right"}
    assert {layout for layout, _ in errors} == layouts
    assert {key: error for key, error in errors.items() if not error <= TOLERANCE} == {}


@pytest.mark.parametrize(("name", "attention"), VARIANTS)
def test_every_site_in_every_layout_equals_transformers(name: str, attention: str) -> None:
    model, family = model_of(name, attention), FAMILIES[name]
    assert set(model.architecture.unavailable) == set(family.missing)
    assert (model.architecture.sharing_problem == "") == family.shares
    # Post-norm OPT has no norm behind its blocks.
    assert (model.architecture.readout_problem == "") == ("final_norm" not in family.missing)
    check_errors(model, family, largest_errors(model, family))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exact_is_refused_with_what_was_found(name: str) -> None:
    config, sizes, message = REFUSED[name]
    module = module_of(config, sizes)
    for dtype in (torch.float32, torch.bfloat16):
        with pytest.raises(ValueError, match=message) as error:
            prove_architecture(module.to(dtype))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", FAMILIES)
def test_half_precision_is_proved_as_single_precision_is(name: str) -> None:
    family = FAMILIES[name]
    architecture = prove_architecture(module_of(family.config, family.sizes).bfloat16())
    assert set(architecture.unavailable) == set(family.missing)
    assert (architecture.sharing_problem == "") == family.shares
    assert (architecture.readout_problem == "") == ("final_norm" not in family.missing)


@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_answers_do_not_change_with_the_batch_size(name: str) -> None:
    model = model_of(name, VARIANTS[-1][1] if FAMILIES[name].sdpa else "eager")
    prompts = [Prompt(id=str(n), text=text) for n, text in enumerate(TEXTS)]
    many = generate(model, prompts, max_new_tokens=4, batch_size=32)
    assert generate(model, prompts, max_new_tokens=4, batch_size=8) == many
    few = slice(0, None, 5)
    assert generate(model, prompts[few], max_new_tokens=4, batch_size=1) == many[few]
    tokens = list(render(model, prompts[6]).token_ids)
    wanted: list[int] = []
    while len(wanted) < 4:
        with torch.inference_mode():
            output = model.module(input_ids=torch.tensor([tokens + wanted]), use_cache=False)
        token = int(output.logits[0, -1].argmax())
        if token in stop_tokens(model):
            break
        wanted.append(token)
    assert many[6].n_tokens == len(wanted)
    assert many[6].text == model.tokenizer.decode(wanted, skip_special_tokens=True)


@pytest.mark.parametrize("name", FAMILIES)
def test_samples_that_share_a_reading_are_those_of_prompts_read_alone(name: str) -> None:
    """Held against a loop without batches or caches; some of them leave their batch early."""
    model = model_of(name, VARIANTS[-1][1] if FAMILIES[name].sdpa else "eager")
    assert model.architecture.cache_problem == ""
    prompts = [Prompt(id=str(n), text=TEXTS[n]) for n in (3, 4, 5)]
    found = generate(
        model,
        prompts,
        n_samples=4,
        temperature=1.0,
        batch_size=8,
        max_new_tokens=10,
        decided=lambda text: len(text) % 7 == 3,
    )
    assert len({completion.decided for completion in found}) == 2
    for completion in found[::3]:
        sampling = Sampling([row_seed(0, completion.id, completion.sample)], 1.0, model.device)
        tokens = list(render(model, prompts[int(completion.id) - 3]).token_ids)
        wanted: list[int] = []
        while len(wanted) < completion.n_tokens:
            with torch.inference_mode():
                output = model.module(input_ids=torch.tensor([tokens + wanted]), use_cache=False)
            wanted.append(int(sampling(output.logits[:, -1].float())))
        text = model.tokenizer.decode(wanted, skip_special_tokens=True)
        assert completion.text == text.rstrip("\ufffd" if completion.decided else "")


def test_samples_are_read_apart_where_a_cache_is_a_models_own() -> None:
    sizes = {
        **FAMILIES["mixtral"].sizes,
        "head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
    }
    module = module_of("MiniMaxConfig", sizes)
    model = Model.from_module(module, tokenizer(), name="minimax", weights_id="minimax")
    assert "MiniMaxCache of its own" in model.architecture.cache_problem
    # With a cache its logits are others than without (by 0.06), so that no loop without one can be the reference.
    settings: dict[str, Any] = {"n_samples": 4, "temperature": 1.0, "max_new_tokens": 10}
    settings["decided"] = lambda text: len(text) % 7 == 3
    for text in TEXTS[:3]:
        prompts = [Prompt(id=text, text=text)]
        together = generate(model, prompts, batch_size=4, **settings)
        assert together == generate(model, prompts, batch_size=1, **settings)


@pytest.mark.parametrize("name", FAMILIES)
def test_states_and_interventions_while_generating_are_those_of_capture(name: str) -> None:
    model = model_of(name, "eager")
    prompts = [Prompt(id=str(n), text=text) for n, text in enumerate(TEXTS[2:5])]
    spec = CaptureSpec(
        sites=model.architecture.sites, positions=("mean_instruction", "prompt_last")
    )
    steer = Steer("resid_post", 0, torch.ones(model.d_model), positions=("prompt_last",))
    for steers in ([], [steer]):
        found: list[Activations] = []
        with intervene(model, steers):
            generate(model, prompts, max_new_tokens=2, spec=spec, on_states=found.append)
            (wanted,) = capture(model, prompts, spec)
        (ours,) = found
        order = [ours.ids.index(id) for id in wanted.ids]
        for site, states in wanted.sites.items():
            assert error_of(ours.sites[site][order], states) <= TOLERANCE, site


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_from_what_a_capture_kept_are_those_of_prompts_read_for_them(name: str) -> None:
    model = model_of(name, VARIANTS[-1][1] if FAMILIES[name].sdpa else "eager")
    prompts = [Prompt(id=str(n), text=text) for n, text in enumerate(TEXTS)]
    plan = plan_capture(
        model, prompts, CaptureSpec(sites=model.architecture.sites, positions=("prompt_last",))
    )
    read: list[str] = []

    def answer(kept: Kept) -> None:
        own = [prompt for prompt in prompts if prompt.id in kept.batch.ids]
        settings: dict[str, Any] = {"n_samples": 2, "temperature": 1.0, "max_new_tokens": 6}
        found = generate(model, own, kept=kept, **settings)
        assert found == generate(model, own, **settings)
        read.extend(kept.batch.ids)

    for _ in plan.run(on_read=answer):
        pass
    assert not read or len(read) == len(prompts)


@pytest.mark.parametrize(("window", "switch"), [(None, 8), (8, 16), (16, 8)])
def test_longrope_reads_a_prompt_as_it_would_alone_whatever_else_there_is(
    window: int | None, switch: int
) -> None:
    module = module_of("Phi3Config", {**long_rope(switch), "sliding_window": window})
    model = Model.from_module(module, tokenizer(), name="longrope", weights_id="longrope")
    assert model.architecture.window == min(window or switch, switch)
    assert model.architecture.rope_switch == switch
    prompts = [Prompt(id=str(n), text="yes" + " no" * n) for n in range(20)]
    spec = CaptureSpec(layers=(0, 1))
    lengths = {len(render(model, prompt)) for prompt in prompts}
    assert min(lengths) < min(window or switch, switch)
    assert max(window or switch, switch) < max(lengths)
    for share in (True, False):
        for acts in capture(model, prompts, spec, share_prefixes=share):
            for row, id in enumerate(acts.ids):
                tokens = torch.tensor([render(model, prompts[int(id)]).token_ids])
                with torch.inference_mode():
                    hidden = model.module(tokens, output_hidden_states=True).hidden_states
                found = acts.sites["resid_post"][row, 0, 0]
                assert error_of(found, hidden[1][0, -1]) <= TOLERANCE
    for sampling in ({}, {"n_samples": 3, "temperature": 1.0}):
        together = generate(model, prompts, max_new_tokens=3, batch_size=20, **sampling)
        assert together == generate(model, prompts, max_new_tokens=3, batch_size=1, **sampling)


@pytest.fixture(scope="module")
def gemma() -> Model:
    """The optional second model; skipped where its packages are not installed."""
    try:
        EMBEDDED["gemma3-270m"].find()
    except ValueError as error:
        pytest.skip(str(error))
    return load_model("gemma3-270m", device="cpu")


def test_the_embedded_model_equals_transformers(embedded_model: Model) -> None:
    family = REAL["smollm2-135m"]
    check_errors(embedded_model, family, largest_errors(embedded_model, family, (3, 9, 20)))


def test_the_optional_model_equals_transformers(gemma: Model) -> None:
    assert gemma.tokenizer.chat_template is None
    assert render(gemma, Prompt(id="a", text="The capital")).token_ids[0] == 2
    family = REAL["gemma3-270m"]
    check_errors(gemma, family, largest_errors(gemma, family, (3, 9, 20)))
