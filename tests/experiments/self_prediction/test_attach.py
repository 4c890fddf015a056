from __future__ import annotations

from contextlib import suppress

import pytest
import torch

from experiments.self_prediction.heads import SelfPredictionHead, Shape, Target
from experiments.self_prediction.place import Place
from hooks import (
    CaptureSpec,
    Model,
    Prompt,
    Steer,
    capture,
    generate,
    intervene,
    option_logprobs,
    plan_capture,
    render,
)
from tests.experiments.self_prediction.head_data import (
    POSITIONS,
    PROMPTS,
    drawn_head,
    largest_difference,
    offline,
)
from tests.hooks.parity import model_of

ELSEWHERE = CaptureSpec(sites=("resid_pre",), layers=(0,))
"""A capture that needs no block behind the first."""
ANSWERS = CaptureSpec(sites=("final_norm",))
"""One that reads to the end."""


def hook_count(model: Model) -> int:
    return sum(
        len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.module.modules()
    )


def every_place(model: Model) -> list[Place]:
    """Every site once at least, and every position."""
    places = []
    for index, site in enumerate(model.architecture.sites):
        for layer in (None,) if site in ("embed", "final_norm") else (0, -1):
            places.append(Place(site, layer, POSITIONS[(index + len(places)) % len(POSITIONS)]))
    return places


def test_what_is_served_equals_what_is_predicted_offline(tiny_model: Model) -> None:
    served = set()
    for place in every_place(tiny_model):
        served.add(place.position)
        head = drawn_head(tiny_model, place, Shape("mlp", hidden=8))
        wanted = offline(head, tiny_model, PROMPTS)
        with head.attach(tiny_model) as shared:
            list(capture(tiny_model, PROMPTS, ELSEWHERE))
        with head.attach(tiny_model) as padded:
            list(capture(tiny_model, PROMPTS, ELSEWHERE, share_prefixes=False, batch_tokens=100))
        with head.attach(tiny_model) as written:
            generate(tiny_model, PROMPTS, max_new_tokens=3, batch_size=3)
        with head.attach(tiny_model) as sampled:
            generate(
                tiny_model, PROMPTS, max_new_tokens=2, n_samples=3, temperature=1.0, batch_size=2
            )
        with head.attach(tiny_model) as options:
            option_logprobs(tiny_model, PROMPTS, {"yes": ["yes"], "no": ["no"]})
        for found in (shared, padded, written, sampled, options):
            assert largest_difference(found.predictions, wanted) < 1e-5, place
    assert served == set(POSITIONS)


@pytest.mark.parametrize(
    "family", ["opt", "bloom", "falcon_new", "gptj", "mamba", "jamba", "mixtral"]
)
def test_heads_are_served_on_models_of_other_kinds(family: str) -> None:
    """Flattened rows, ALiBi, parallel branches, states in the place of attention, experts."""
    model = model_of(family, "eager")
    for site in ("resid_post", "mlp_out"):
        if site in model.architecture.sites:
            head = drawn_head(model, Place(site, 1, "mean_instruction"))
            with head.attach(model) as served:
                generate(model, PROMPTS, max_new_tokens=2, batch_size=3)
            assert largest_difference(served.predictions, offline(head, model, PROMPTS)) < 1e-5


def test_the_prediction_is_that_of_the_unpadded_prompt_alone(tiny_model: Model) -> None:
    """Against transformers' own hidden states and the formula written out."""
    place = Place("resid_pre", 2, "instruction_last")
    head = drawn_head(tiny_model, place)
    layer = head.networks[0]
    with head.attach(tiny_model) as served:
        generate(tiny_model, PROMPTS, max_new_tokens=2)
    for prompt in PROMPTS:
        rendered = render(tiny_model, prompt)
        with torch.inference_mode():
            read = tiny_model.module(
                torch.tensor([rendered.token_ids]), output_hidden_states=True, use_cache=False
            )
            state = read.hidden_states[2][0, rendered.spans["instruction"][1] - 1]
            logits = layer.weight @ ((state - head.mean) / head.scale) + layer.bias
        found = served.predictions[prompt.id]
        assert found["refuses"] == pytest.approx(float(torch.sigmoid(logits[0])), abs=1e-5)
        assert found["tokens"] == pytest.approx(float(40 + 3 * logits[1]), rel=1e-5)
        assert found["flips"] == pytest.approx(float(torch.sigmoid(logits[2])), abs=1e-5)


def test_the_real_model_serves_what_is_predicted_offline(embedded_model: Model) -> None:
    for place in (Place("resid_post", 20, "prompt_last"), Place("mlp_out", 8, "mean_instruction")):
        head = drawn_head(embedded_model, place)
        head.standardize(
            next(capture(embedded_model, PROMPTS, place.spec)).sites[place.site][:, 0, 0]
        )
        wanted = offline(head, embedded_model, PROMPTS)
        with head.attach(embedded_model) as served:
            generate(embedded_model, PROMPTS, max_new_tokens=2, batch_size=3)
        assert largest_difference(served.predictions, wanted) < 1e-5


def test_serving_changes_no_completion_and_no_weight(tiny_model: Model) -> None:
    weights = {name: tensor.clone() for name, tensor in tiny_model.module.state_dict().items()}
    fingerprint, hooks = tiny_model.fingerprint, hook_count(tiny_model)
    plain = generate(tiny_model, PROMPTS, max_new_tokens=5)
    head = drawn_head(tiny_model, Place("resid_post", 1, "mean_instruction"))
    with head.attach(tiny_model):
        served = generate(tiny_model, PROMPTS, max_new_tokens=5)
    assert served == plain
    assert hook_count(tiny_model) == hooks
    assert not tiny_model.attachments
    assert tiny_model.fingerprint == fingerprint
    for name, tensor in tiny_model.module.state_dict().items():
        assert torch.equal(tensor, weights[name]), name


def test_two_heads_are_served_by_one_pass(tiny_model_of) -> None:
    model = tiny_model_of("llama")
    early = drawn_head(model, Place("resid_post", 0, "quote_last"))
    late = drawn_head(model, Place("final_norm", None, "prompt_last"), seed=1)
    passes = []
    handle = model.architecture.blocks[0].module.register_forward_hook(
        lambda *_: passes.append(None)
    )
    with early.attach(model) as first, late.attach(model) as second:
        list(capture(model, PROMPTS, ELSEWHERE))
    handle.remove()
    assert len(passes) == 1
    assert largest_difference(first.predictions, offline(early, model, PROMPTS)) < 1e-5
    assert largest_difference(second.predictions, offline(late, model, PROMPTS)) < 1e-5


@pytest.mark.parametrize("positions", ["all", ("instruction_last",)])
@pytest.mark.parametrize("head_first", [True, False])
def test_a_head_sees_what_interventions_have_changed(tiny_model_of, positions, head_first) -> None:
    model = tiny_model_of("gpt2")
    head = drawn_head(model, Place("resid_post", 1, "instruction_last"))
    steer = intervene(model, [Steer("resid_post", 1, torch.ones(32), 2.0, positions)])
    plain = offline(head, model, PROMPTS)
    if head_first:
        with head.attach(model) as served, steer:
            generate(model, PROMPTS, max_new_tokens=2)
            steered = offline(head, model, PROMPTS)
    else:
        with steer, head.attach(model) as served:
            generate(model, PROMPTS, max_new_tokens=2)
            steered = offline(head, model, PROMPTS)
    assert largest_difference(served.predictions, steered) < 1e-5
    assert largest_difference(plain, steered) > 1e-2


def test_completions_go_on_from_what_a_served_capture_has_read(tiny_model_of) -> None:
    model = tiny_model_of("llama")
    head = drawn_head(model, Place("resid_post", 1, "quote_last"))
    kept = []
    with head.attach(model) as served:
        list(plan_capture(model, PROMPTS, ANSWERS).run(on_read=kept.append))
        foretold = dict(served.predictions)
        (whole,) = kept
        generate(model, PROMPTS, max_new_tokens=2, kept=whole)
    assert largest_difference(foretold, offline(head, model, PROMPTS)) < 1e-5
    assert served.predictions == foretold


def test_a_bare_call_of_the_module_is_let_go_by(tiny_model: Model) -> None:
    with drawn_head(tiny_model, Place("resid_post", 1, "prompt_last")).attach(tiny_model) as served:
        tiny_model.module(torch.tensor([[5, 6, 7]]))
    assert not served.predictions


def test_a_pass_that_fails_leaves_nothing_behind(tiny_model_of) -> None:
    model = tiny_model_of("llama")
    head, hooks = drawn_head(model, Place("resid_post", 0, "prompt_last")), hook_count(model)

    def fail(*_):
        raise KeyError

    handle = model.architecture.blocks[1].module.register_forward_hook(fail)
    with suppress(KeyError), head.attach(model) as served:
        generate(model, PROMPTS, max_new_tokens=2)
    handle.remove()
    assert not served.predictions
    assert hook_count(model) == hooks
    assert not model.attachments
    with head.attach(model) as served:
        generate(model, PROMPTS, max_new_tokens=2)
    assert served.predictions.keys() == {prompt.id for prompt in PROMPTS}


def test_what_cannot_be_served_is_refused_in_one_line(tiny_model_of) -> None:
    llama, gpt2 = tiny_model_of("llama"), tiny_model_of("gpt2")
    head = drawn_head(llama, Place("resid_post", 0, "quote_last"))
    refused = [
        (lambda: head.attach(gpt2), r"belongs to model 'tiny-llama', not to 'tiny-gpt2' \(other"),
        (
            # A model that was saved meanwhile has its architecture in its config.
            lambda: head.attach(tiny_model_of("llama", 1)),
            r"other (config, )?weights\); load that model",
        ),
        (
            lambda: SelfPredictionHead([Target("a")], head.place, 32).attach(llama),
            "belongs to no model; call bind",
        ),
    ]
    for attach, message in refused:
        with pytest.raises(ValueError, match=message) as caught, attach():
            pass
        assert "\n" not in str(caught.value)
    unquoted = [Prompt.chat("u", "yes?")]
    for read in (
        lambda: generate(llama, unquoted, max_new_tokens=1),
        lambda: capture(llama, unquoted, ELSEWHERE),
    ):
        with (
            head.attach(llama),
            pytest.raises(ValueError, match="'u' has no position 'quote_last'"),
        ):
            read()
