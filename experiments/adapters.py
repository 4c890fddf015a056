"""LoRA adapters (Hu et al. 2021, arXiv 2106.09685) on the linear maps of a model's blocks, put in and taken out.

The weights of the model are never written to: an adapter stands beside its map and adds to what that gives, and taking
it out puts the map back. So the model afterwards is the one before, bit for bit.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from experiments.records import make_folder
from hooks import Model
from hooks.weights import quiet_transformers
from probes.stem_files import StemFiles

_NAME = "default"
"""peft's, of the one set of adapters."""
_WHAT, _FORMAT = "adapters", 1


@dataclass(frozen=True)
class _Place:
    """Where an adapter stands, and what stood there before it."""

    parent: nn.Module
    name: str
    before: nn.Module

    @property
    def layer(self) -> Any:
        """peft's layer, which holds the map and its adapter."""
        return getattr(self.parent, self.name)


class Adapters:
    """Adapters that are in place: from `adapted`, or from `put_in`.

    Attributes:
        parameters: what is trained, by the path of the map and "A" (down) or "B" (up); float32.
    """

    def __init__(
        self,
        module: nn.Module,
        places: Mapping[str, _Place],
        trainable: Sequence[tuple[nn.Parameter, bool]],
        about: Mapping[str, Any],
    ) -> None:
        self._module = module
        self._places = places
        self._trainable = trainable
        self._about = about
        self.parameters: Mapping[str, nn.Parameter] = {
            f"{path}.{side}": getattr(place.layer, f"lora_{side}")[_NAME].weight
            for path, place in places.items()
            for side in ("A", "B")
        }

    def save(self, stem: Path) -> None:
        """Write `stem`.safetensors and, with what it belongs to, `stem`.json.

        Raises:
            OSError: it cannot be written.
        """
        tensors = {name: p.detach().cpu().numpy() for name, p in self.parameters.items()}
        StemFiles(stem, _WHAT).write(tensors, {"format": _FORMAT, **self._about})

    def load(self, stem: Path) -> None:
        """Take the values that `save` wrote.

        Raises:
            ValueError: they are of another model or of other adapters, or a file is damaged or missing.
        """
        files = StemFiles(stem, _WHAT)
        about = files.described({name: type(own) for name, own in self._about.items()}, _FORMAT)
        for name, own in self._about.items():
            if about[name] != own:
                raise ValueError(
                    f"{_WHAT}: {stem} is of {name} {about[name]!r:.80}, and these are of {own!r:.80}"
                )
        shapes = {name: tuple(p.shape) for name, p in self.parameters.items()}
        values = files.tensors(about, shapes, np.float32)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(torch.from_numpy(values[name]))

    def write_merged(self, folder: Path, tokenizer: Any | None = None) -> None:
        """Write the model as it is now as an ordinary Hugging Face folder; the one in memory stays as it is.

        Args:
            folder: made if need be.
            tokenizer: is written beside.

        Raises:
            ValueError: the folder cannot be written to.
        """
        make_folder("folder", folder)
        merged = {}
        for name, value in self._module.state_dict().items():
            path, _, last = name.rpartition(".base_layer.")
            if path in self._places:
                layer = self._places[path].layer
                delta = layer.get_delta_weight(_NAME) if last == "weight" else 0
                merged[f"{path}.{last}"] = (value + delta).to(value.dtype)
            elif not any(name.startswith(f"{place}.lora_") for place in self._places):
                merged[name] = value
        module: Any = self._module
        architectures = module.config.architectures
        with quiet_transformers():
            module.save_pretrained(folder, state_dict=merged)
            if tokenizer is not None:
                tokenizer.save_pretrained(folder)
        module.config.architectures = architectures  # saving fills it in, and fingerprints know it

    def merge(self) -> None:
        """Add the adapters to the weights of the model for good; they are still to be taken out."""
        for place in self._places.values():
            place.layer.merge()

    def take_out(self) -> None:
        """Put back what stood in the adapters' places, and let be trained what could be before."""
        for place in self._places.values():
            setattr(place.parent, place.name, place.before)
        del self._module.peft_config
        for parameter, was_trainable in self._trainable:
            parameter.requires_grad_(was_trainable)


def check_peft() -> None:
    """Raise ValueError where peft is not installed."""
    if importlib.util.find_spec("peft") is None:
        raise ValueError("peft: adapters need it; run `pip install 'selfprobe[lora]'`")


@contextmanager
def adapted(
    model: Model, *, rank: int = 16, seed: int = 0, blocks: Sequence[int] | None = None
) -> Iterator[Adapters]:
    """Put an adapter beside every linear map of a model's blocks; as they start they change nothing.

    Whatever uses the model inside the block (generation, capture, option odds) sees it with its adapters, and its
    parameters get gradients through them alone. On exit it is bit-identical to what it was.

    A map whose output is itself read as what a branch adds (in OPT and Bloom) has none: what was read would be what
    it gives without its adapter.

    Args:
        model: any that `load_model` gives.
        rank: of every adapter; its output is scaled by alpha / rank = 2.
        seed: of the lower halves' start; the upper ones start at 0.
        blocks: which of them; None is all.

    Raises:
        ValueError: no peft, a rank or block out of range, adapters that are there already, or blocks without a linear
            map.
    """
    check_peft()
    if rank < 1:
        raise ValueError(f"rank: {rank} is not positive; give at least 1")
    chosen = sorted(set(range(model.n_layers) if blocks is None else blocks))
    for block in chosen:
        if not 0 <= block < model.n_layers:
            raise ValueError(
                f"blocks: there is no block {block}; {model.name} has 0 to {model.n_layers - 1}"
            )
    own = model.fingerprint
    about = {"weights": own["weights"], "config": own["config"], "rank": rank, "blocks": chosen}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapters = put_in(model.module, _paths(model, chosen), rank, about)
    try:
        yield adapters
    finally:
        adapters.take_out()


def put_in(
    module: nn.Module, paths: Sequence[str], rank: int, about: Mapping[str, Any] | None = None
) -> Adapters:
    """Put adapters beside linear maps, and let nothing else of the module be trained.

    Args:
        module: changed in place until `take_out`.
        paths: of the maps.
        rank: of every adapter.
        about: what saved adapters belong to.

    Raises:
        ValueError: no path, or there are adapters already.
    """
    from peft import LoraConfig
    from peft.tuners.lora import LoraModel

    if not paths:
        raise ValueError("blocks: no linear map in them can carry an adapter; choose other blocks")
    if hasattr(module, "peft_config"):
        raise ValueError(
            "adapters: the model carries some already; leave the block that put them in"
        )
    trainable = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    before = {path: module.get_submodule(path) for path in paths}
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(paths))
    with warnings.catch_warnings():  # peft calls what transformers will rename
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings(
            "ignore", "fan_in_fan_out", UserWarning
        )  # it sets that right itself
        LoraModel(module, config, _NAME)
    places = {}
    for path, linear in before.items():
        parent, _, name = path.rpartition(".")
        place = places[path] = _Place(module.get_submodule(parent), name, linear)
        for half in (place.layer.lora_A, place.layer.lora_B):
            half[_NAME].float()  # steps are smaller than what bfloat16 tells apart
    return Adapters(module, places, trainable, about or {})


def _paths(model: Model, blocks: Sequence[int]) -> list[str]:
    """The linear maps of some blocks, but for those that are read themselves."""
    from transformers.pytorch_utils import Conv1D

    architecture = model.architecture
    read = {id(part) for block in architecture.blocks for part in (block.attention, block.mlp)}
    inside = {id(part) for i in blocks for part in architecture.blocks[i].module.modules()}
    return [
        path
        for path, part in model.module.named_modules()
        if isinstance(part, nn.Linear | Conv1D) and id(part) in inside and id(part) not in read
    ]
