"""Where in a model a head reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hooks import CaptureSpec, Model
from hooks.activations import LAYERLESS_SITES


@dataclass(frozen=True)
class Place:
    """One state of every prompt.

    Attributes:
        site: a name out of `hooks.SITES`.
        layer: the block; negative counts from the end, None at a site without layers.
        position: a named position, as `CaptureSpec` takes it.

    Raises:
        ValueError: an unknown site or position, or a layer where there is none to have, or none where there is.
    """

    site: str
    layer: int | None
    position: str

    def __post_init__(self) -> None:
        spec = self.spec
        if spec.sites[0] in LAYERLESS_SITES:
            object.__setattr__(self, "layer", None)
        elif self.layer is None:
            raise ValueError(f"layer: none is given, and site {self.site!r} has layers; name one")

    @property
    def spec(self) -> CaptureSpec:
        """What a capture is asked for to read it."""
        layers = (0,) if self.layer is None else (self.layer,)
        return CaptureSpec(sites=(self.site,), layers=layers, positions=(self.position,))

    def of(self, model: Model) -> Place:
        """The same with its layer counted from the start.

        Raises:
            ValueError: the model lacks the site or the layer.
        """
        spec = self.spec.resolve(model.n_layers)
        model.architecture.require(spec.sites)
        assert not isinstance(spec.layers, str)
        return self if self.layer is None else replace(self, layer=spec.layers[0])
