"""Finds the parts of a decoder-only model: embedding, blocks, final norm, unembedding.

Only the *finding* is here, by the names that model families use and else by shape; `hooks.proof`
then proves by a small forward pass which of the candidates for attention and MLP are right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from hooks.activations import SITES

_NOT_TEXT = re.compile(r"vision|visual|audio|image|encoder")
_FINAL_NORM_NAMES = ("norm", "ln_f", "final_layer_norm", "final_layernorm", "final_norm", "norm_f")
# A module's output where it is what the branch adds to the residual stream; a post-norm (Gemma 2
# and 3, OLMo-2, GLM-4) comes after it, and Bloom's modules add the residual themselves, so that
# their last projection is what to read.
_ATTENTION_NAMES = (
    "self_attn",
    "attn",
    "attention",
    "self_attention",
    "post_attention_layernorm",
    "post_self_attn_layernorm",
    "self_attention.dense",
)
_MLP_NAMES = (
    "mlp",
    "feed_forward",
    "block_sparse_moe",
    "post_feedforward_layernorm",
    "post_mlp_layernorm",
    "fc2",
    "mlp.dense_4h_to_h",
)


@dataclass(frozen=True)
class Block:
    """One decoder block, and the modules whose outputs its two branches add to the stream."""

    module: nn.Module
    attention: nn.Module | None = None
    mlp: nn.Module | None = None


@dataclass(frozen=True)
class Readout:
    """How final states become logits: unembedding, factor, soft cap (both as the config says)."""

    unembedding: nn.Module
    factor: float = 1.0
    softcap: float | None = None

    def __call__(self, states: Tensor) -> Tensor:
        """Turn states after the final norm, `[..., d_model]`, into float32 logits."""
        weight = getattr(self.unembedding, "weight", states)
        if weight.is_floating_point():  # Mamba's final norm gives float32 whatever the weights are.
            states = states.to(weight.dtype)
        logits: Tensor = self.unembedding(states)
        if self.factor != 1.0:
            logits = logits * self.factor
        if self.softcap is not None:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits.float()

    def of(self, tokens: Sequence[int]) -> Readout:
        """The readout of these tokens alone, in their order: their logits, without those of the whole vocabulary."""
        whole, chosen = self.unembedding, list(tokens)
        # Weights of any other layer (quantized, offloaded, adapted) may be more than a matrix.
        if type(whole) is not nn.Linear or whole.weight.is_meta:
            return replace(self, unembedding=nn.Sequential(whole, _Columns(chosen)))
        rows = nn.Linear(whole.in_features, len(chosen), bias=whole.bias is not None, device="meta")
        rows.weight = nn.Parameter(whole.weight.detach()[chosen], requires_grad=False)
        if whole.bias is not None:
            rows.bias = nn.Parameter(whole.bias.detach()[chosen], requires_grad=False)
        return replace(self, unembedding=rows)


class _Columns(nn.Module):
    def __init__(self, columns: list[int]) -> None:
        super().__init__()
        self.columns = columns

    def forward(self, logits: Tensor) -> Tensor:
        """The chosen logits."""
        return logits[..., self.columns]


@dataclass(frozen=True)
class Architecture:
    """The parts of a model, and what has been proved about them.

    Attributes:
        backbone: everything but the unembedding; called with token ids it runs all blocks.
        blocks: the decoder blocks in order.
        final_norm: the norm behind the last block.
        readout: turns final states into logits.
        unavailable: sites that cannot be read, each with the reason.
        readout_problem: why the readout does not equal the model's logits, or "".
        sharing_problem: why prompts cannot share a prefix exactly, or "".
        cache_problem: why the rows of a batch cannot be repeated and dropped while the model writes, or "".
        window: the longest prompt that every layer attends to in full, or None for any; `rope_switch`
            where that is shorter.
        rope_switch: the longest sequence that is read with the rotary frequencies of short ones
            (LongRoPE: the longest in a batch decides for all of it), or None.
        takes_position_ids: whether the backbone takes `position_ids`.
    """

    backbone: nn.Module
    blocks: tuple[Block, ...]
    final_norm: nn.Module | None
    readout: Readout | None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    readout_problem: str = ""
    sharing_problem: str = ""
    cache_problem: str = ""
    window: int | None = None
    rope_switch: int | None = None
    takes_position_ids: bool = True

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that can be read."""
        return tuple(site for site in SITES if site not in self.unavailable)

    def require(self, sites: tuple[str, ...]) -> None:
        """Raise ValueError, with the reason, if one of the sites cannot be read."""
        for site in sites:
            if site in self.unavailable:
                raise ValueError(
                    f"sites: {site!r} does not exist in this model: {self.unavailable[site]}; "
                    f"choose from {', '.join(self.sites)}"
                )


def text_config(module: nn.Module) -> Any:
    """Return the config of the language model, also of a model that sees or hears as well."""
    config: Any = module.config
    return config.get_text_config(decoder=True)


def first_tensor(output: Any) -> Tensor:
    """Return a module's main output: transformers 5 gives a Tensor where 4 gave a tuple."""
    first = output[0] if isinstance(output, tuple | list) else output
    if not isinstance(first, Tensor):
        raise TypeError(f"a module gave {type(first).__name__} where a Tensor was expected")
    return first


def block_input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """Return the residual stream that a block was called with."""
    states = args[0] if args else kwargs["hidden_states"]
    assert isinstance(states, Tensor)
    return states


def find_blocks(module: nn.Module, n_layers: int) -> tuple[str, nn.ModuleList]:
    """Return the path and the list of the decoder blocks.

    It is the outermost list of `n_layers` modules outside any vision or audio tower.

    Raises:
        ValueError: there is none.
    """
    for path, candidate in module.named_modules():
        if (
            isinstance(candidate, nn.ModuleList)
            and len(candidate) == n_layers
            and not _NOT_TEXT.search(path)
        ):
            return path, candidate
    lists = [
        f"{path} ({len(candidate)})"
        for path, candidate in module.named_modules()
        if isinstance(candidate, nn.ModuleList) and not re.search(r"\.\d+\.", path)
    ]
    raise ValueError(
        f"architecture: no list of {n_layers} decoder blocks in {type(module).__name__} "
        f"(it has {', '.join(lists) or 'no list of modules'}); "
        "only decoder-only models are supported"
    )


def find_backbone(module: nn.Module, blocks_path: str) -> nn.Module:
    """Return the outermost module around the blocks that runs them but not the unembedding."""
    blocks = module.get_submodule(blocks_path)
    # Llama 4's language model names a base that it does not have: its first level is searched too.
    for candidate in (module.base_model, module.get_submodule(blocks_path.partition(".")[0])):
        if not isinstance(candidate, nn.Module) or candidate in (module, blocks):
            continue
        if any(child is blocks for child in candidate.modules()):
            return candidate
    return module


def find_final_norm(stack: nn.Module, d_model: int) -> nn.Module | None:
    """Return the norm beside the blocks: by name, else the last child with one weight vector."""
    children = dict(stack.named_children())
    for name in _FINAL_NORM_NAMES:
        if name in children:
            return children[name]
    for child in reversed(list(children.values())):
        weight = getattr(child, "weight", None)
        if isinstance(weight, Tensor) and tuple(weight.shape) == (d_model,):
            return child
    return None


def branch_candidates(block: nn.Module) -> tuple[list[str], list[str]]:
    """Return the paths in a block that may hold what attention and MLP add, likeliest first.

    Known names come first, and every other submodule of the first two levels after them.
    """
    paths = {path for path, _ in block.named_modules() if path and path.count(".") <= 1}
    others = sorted(paths, key=lambda path: (path.count("."), path))

    def ranked(known: tuple[str, ...]) -> list[str]:
        first = [path for path in known if path in paths]
        return first + [path for path in others if path not in first]

    return ranked(_ATTENTION_NAMES), ranked(_MLP_NAMES)


def find_readout(module: nn.Module) -> Readout | None:
    """Return how the model turns final states into logits, as far as its config says."""
    unembedding = module.get_output_embeddings()  # type: ignore[operator]
    if unembedding is None:
        return None
    config = text_config(module)
    factor = float(getattr(config, "logit_scale", None) or 1.0)
    factor /= float(getattr(config, "logits_scaling", None) or 1.0)
    softcap = getattr(config, "final_logit_softcapping", None)
    return Readout(unembedding, factor, None if softcap is None else float(softcap))


def find_cache(outputs: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the name and the cache in what goes into or comes out of a model; None where there is none."""
    name = (
        "cache" if "cache" in outputs else "past_key_values"
    )  # transformers 5 renamed it on the way
    return name, outputs.get(name)


def attention_window(config: Any) -> int | None:
    """Return the shortest attention window (or `rope_switch`) in tokens, or None if there is none."""
    windows: list[int] = list(_windows(config))
    switch = rope_switch(config)
    if switch is not None:
        windows.append(switch)
    return min(windows) if windows else None


def rope_switch(config: Any) -> int | None:
    """Return the length beyond which LongRoPE takes other frequencies, or None for other models."""
    parameters = getattr(config, "rope_parameters", None) or {}
    # Some families have one set of parameters a type of layer.
    for rope in (parameters, *parameters.values()):
        if isinstance(rope, Mapping) and rope.get("rope_type") == "longrope":
            length = rope.get("original_max_position_embeddings")
            return int(length or config.original_max_position_embeddings)
    return None


def _windows(config: Any) -> Iterator[int]:
    layer_types = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    slides = layer_types is None or any("sliding" in layer_type for layer_type in layer_types)
    if window and slides and getattr(config, "use_sliding_window", True):
        yield int(window)
    chunk = getattr(config, "attention_chunk_size", None)
    if chunk:
        yield int(chunk)
    if "local" in (getattr(config, "attention_layers", None) or ()):  # GPT-Neo
        yield int(config.window_size)
