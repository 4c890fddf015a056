from __future__ import annotations

import pytest
import torch

from hooks import Activations, CaptureSpec


def test_layers_are_made_explicit_and_sorted() -> None:
    assert CaptureSpec().resolve(3).layers == (0, 1, 2)
    assert CaptureSpec(layers=(2, -3)).resolve(3).layers == (0, 2)
    assert CaptureSpec(layers=[1, -2]).resolve(3).layers == (1,)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sites": ()}, "sites: .* is not a non-empty tuple"),
        ({"sites": "resid_post"}, "sites: 'resid_post' is not a non-empty tuple"),
        ({"sites": ("resid",)}, "sites: unknown site 'resid'; choose from embed, resid_pre"),
        ({"sites": ("embed", "embed")}, "names one of them twice"),
        ({"positions": ("last",)}, "positions: unknown position 'last'; choose from"),
        ({"positions": ("template_0",)}, "positions: unknown position 'template_0'"),
        ({"layers": "some"}, "layers: 'some' is neither"),
        ({"layers": ()}, "layers: empty"),
        ({"layers": (3,)}, "layers: 3 does not exist; this model has layers 0 to 2"),
        ({"layers": (1.5,)}, "layers: 1.5 is not a whole number"),
    ],
)
def test_bad_specs_are_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CaptureSpec(**fields).resolve(3)  # type: ignore[arg-type]


def test_layerless_sites_have_one_layer() -> None:
    spec = CaptureSpec(sites=("embed", "resid_post")).resolve(3)
    assert (spec.n_layers_of("embed"), spec.n_layers_of("resid_post")) == (1, 3)
    with pytest.raises(ValueError, match="call resolve"):
        CaptureSpec().n_layers_of("resid_post")


def test_activations_check_their_shapes() -> None:
    states = torch.zeros(2, 1, 1, 4)
    acts = Activations(("a", "b"), {"embed": states}, (0, 1, 2), ("prompt_last",))
    assert len(acts) == 2
    with pytest.raises(ValueError, match="resid_post: shape"):
        Activations(("a", "b"), {"resid_post": states}, (0, 1, 2), ("prompt_last",))
    with pytest.raises(ValueError, match=r"embed: dtype torch\.float16"):
        Activations(("a", "b"), {"embed": states.half()}, (0,), ("prompt_last",))
    with pytest.raises(ValueError, match="option_logprobs: 'yes' has shape"):
        Activations(("a", "b"), {"embed": states}, (0,), ("prompt_last",), {"yes": torch.zeros(1)})
