"""What can be known of a sweep before any work: its items, the sizes of its models, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.asked import choose_items
from experiments.sweeps.cells import Cell
from experiments.tasks import Item
from hooks.weights import find_config


@dataclass(frozen=True)
class ModelSize:
    """What the files of a model say, without loading it."""

    n_layers: int
    d_model: int
    parameters: float


@dataclass(frozen=True)
class Known:
    """What is known of the cells of a sweep."""

    sizes: dict[str, ModelSize | None]
    """Model -> its size; None where it is not on this machine yet."""
    n_items: dict[Cell, int]


def check_cells(cells: Sequence[Cell]) -> Known:
    """Refuse before anything is loaded what would fail in the middle of the work.

    Raises:
        ValueError: a model that cannot be had, a layer that it lacks, an items file that cannot be read, fewer
            groups of items than folds.
    """
    sizes = {model: model_size(model) for model in dict.fromkeys(c.config.model for c in cells)}
    chosen: dict[tuple[object, ...], list[Item]] = {}
    counts = {}
    for cell in cells:
        _check_layers(cell, sizes[cell.config.model])
        key = (cell.task, cell.config.items, cell.config.n)
        if key not in chosen:
            chosen[key] = choose_items(cell.task(), cell.config)
        items = chosen[key]
        n_groups = len({item.group for item in items})
        if n_groups < cell.config.folds:
            raise ValueError(
                f"folds: {cell.config.folds}, but task {cell.task.name!r} has {n_groups} groups of items; give "
                "fewer folds or more groups"
            )
        counts[cell] = len(items)
    return Known(sizes, counts)


def model_size(name: str) -> ModelSize | None:
    """Sizes of a model by its config and the bytes of its weights, or None where those are not here yet.

    Raises:
        ValueError: no such model.
    """
    config = find_config(name)
    if config is None:
        return None
    from transformers import AutoConfig

    try:
        read = AutoConfig.from_pretrained(config.parent)
        sizes = read.get_text_config(decoder=True)
        n_layers, d_model = int(sizes.num_hidden_layers), int(sizes.hidden_size)
    except (OSError, ValueError, AttributeError):
        return None  # loading it says what is wrong with it
    width = 4 if str(getattr(read, "dtype", "float32")).endswith("float32") else 2
    return ModelSize(n_layers, d_model, _weight_bytes(config.parent) / width)


def _weight_bytes(folder: Path) -> int:
    files = list(folder.glob("*.safetensors")) or list(folder.glob("*.bin"))
    return sum(file.stat().st_size for file in files)


def _check_layers(cell: Cell, size: ModelSize | None) -> None:
    layers = cell.config.layers
    if size is None or layers == "all":
        return
    n = size.n_layers
    beyond = [layer for layer in layers if isinstance(layer, int) and not -n <= layer < n]
    if beyond:
        where = f"beyond the last layer, {n - 1}," if beyond[0] >= 0 else "before the first layer"
        raise ValueError(f"layers: {beyond[0]} is {where} of model {cell.config.model!r}")
