"""A random twin: the same architecture and tokenizer, other weights, the same ones for a seed."""

import torch

from hooks import CaptureSpec, Model, Prompt, capture, randomly_initialized

SPEC = CaptureSpec(layers=(0, 2), positions=("mean_instruction", "prompt_last"))
PROMPTS = [Prompt.chat("a", "short poem"), Prompt.chat("b", "capital of France Paris")]


def states(model: Model) -> torch.Tensor:
    batches = list(capture(model, PROMPTS, SPEC))
    return torch.cat([batch.sites["resid_post"] for batch in batches])


def test_the_twin_differs_from_the_model_in_its_weights_alone(tiny_model: Model) -> None:
    before = tiny_model.fingerprint
    twin = randomly_initialized(tiny_model, seed=3)
    differing = {key for key, value in before.items() if twin.fingerprint[key] != value}
    assert differing == {"name", "weights"}
    assert twin.fingerprint["weights"] == "random, seed 3"
    assert tiny_model.fingerprint == before
    assert twin.tokenizer is tiny_model.tokenizer
    shapes = {name: p.shape for name, p in tiny_model.module.named_parameters()}
    assert {name: p.shape for name, p in twin.module.named_parameters()} == shapes
    assert not torch.allclose(states(twin), states(tiny_model), atol=1e-2)


def test_a_seed_gives_the_same_weights_and_leaves_the_generator_alone(tiny_model: Model) -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    first = states(randomly_initialized(tiny_model, seed=1))
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(12)
    assert torch.equal(states(randomly_initialized(tiny_model, seed=1)), first)
    assert not torch.equal(states(randomly_initialized(tiny_model, seed=2)), first)


def test_norms_begin_as_the_family_has_them(tiny_model: Model) -> None:
    """Drawn by the family's own initialization: norms do nothing yet (Gemma's weights are offsets from one)."""
    twin = randomly_initialized(tiny_model)
    assert twin.architecture.final_norm is not None
    weight = twin.architecture.final_norm.weight
    assert isinstance(weight, torch.Tensor)
    assert weight.detach().unique().tolist() in ([0.0], [1.0])
