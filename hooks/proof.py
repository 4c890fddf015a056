"""Proves, by small forward passes on random tokens, what may be read out of a model and how.

- `pre + attention + mlp == post` in every block picks the modules whose outputs the branches add,
  attention being the one that runs first; where no pair of modules satisfies it, `attn_out`,
  `mlp_out` and `resid_mid` are unavailable.
- Noise on the first block's attention must reach its MLP; where it does not, the block is parallel
  and has no `resid_mid` (as in TransformerLens).
- The readout of the final states must equal the model's own logits.
- `hooks.layout_proof`: padding must change nothing, and shared prefixes must be exact.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from hooks.architecture import (
    Architecture,
    Block,
    attention_window,
    block_input,
    branch_candidates,
    find_backbone,
    find_blocks,
    find_final_norm,
    find_readout,
    first_tensor,
    rope_switch,
    text_config,
)
from hooks.layout_proof import prove_layouts, random_tokens

_N_TOKENS = 8
_ROUNDING_STEPS = 8


def prove_architecture(module: nn.Module) -> Architecture:
    """Find the parts of a model and prove them.

    Raises:
        ValueError: there are no decoder blocks, they do not pass on `[row, slot, d_model]`, or
            a prompt's states are not finite or change with padding.
    """
    config = text_config(module)
    path, blocks = find_blocks(module, int(config.num_hidden_layers))
    stack = module.get_submodule(path.rpartition(".")[0])
    backbone = find_backbone(module, path)
    found = Architecture(
        backbone=backbone,
        blocks=tuple(Block(block) for block in blocks),
        final_norm=find_final_norm(stack, int(config.hidden_size)),
        readout=find_readout(module),
        window=attention_window(config),
        rope_switch=rope_switch(config),
        takes_position_ids="position_ids" in inspect.signature(backbone.forward).parameters,
    )
    with torch.inference_mode():
        found = _prove_branches(module, found)
        found = _prove_readout(module, found)
        return prove_layouts(module, found)


@contextmanager
def _hooked(hooks: list[tuple[nn.Module, Callable[..., Any], bool]]) -> Iterator[None]:
    """Register (module, hook, before the module?) inside the block alone."""
    with ExitStack() as stack:
        for module, hook, before in hooks:
            if before:
                handle = module.register_forward_pre_hook(hook, with_kwargs=True)
            else:
                handle = module.register_forward_hook(hook)
            stack.callback(handle.remove)
        yield


def _forward(module: nn.Module, called: nn.Module, tokens: list[int]) -> Any:
    device = module.get_input_embeddings().weight.device  # type: ignore[operator]
    return called(input_ids=torch.tensor([tokens], device=device), use_cache=False)


def _shaped(states: Tensor, like: Tensor) -> Tensor | None:
    """Return a copy with the shape of the stream: OPT's MLP sees its rows flattened."""
    if states.numel() != like.numel() or states.shape[-1] != like.shape[-1]:
        return None
    return states.reshape(like.shape).clone()


def _adds_up(pre: Tensor, attention: Tensor, mlp: Tensor, post: Tensor) -> bool:
    bound = pre.abs() + attention.abs() + mlp.abs()
    rounding = _ROUNDING_STEPS * torch.finfo(post.dtype).eps
    total = pre.float() + attention.float() + mlp.float()
    return bool(((total - post.float()).abs() <= rounding * bound.float()).all())


def _prove_branches(module: nn.Module, found: Architecture) -> Architecture:
    streams: dict[int, tuple[Tensor, Tensor]] = {}
    outputs: list[dict[str, Tensor]] = [{} for _ in found.blocks]
    entered: dict[int, Tensor] = {}
    hooks: list[tuple[nn.Module, Callable[..., Any], bool]] = []
    for index, block in enumerate(found.blocks):

        def enter(_: Any, args: Any, kwargs: Any, index: int = index) -> None:
            # Cloned: Falcon adds in place to what its modules have returned.
            entered[index] = block_input(args, kwargs).clone()

        def leave(_: Any, __: Any, output: Any, index: int = index) -> None:
            streams[index] = entered[index], first_tensor(output).clone()

        def record(_: Any, __: Any, output: Any, index: int = index, path: str = "") -> None:
            value = output[0] if isinstance(output, tuple | list) and output else output
            # OpenAI GPT's blocks share one activation module: only what runs inside counts.
            inside = index in entered and index not in streams
            if inside and isinstance(value, Tensor):
                shaped = _shaped(value, entered[index])
                if shaped is not None:
                    outputs[index][path] = shaped

        hooks += [(block.module, enter, True), (block.module, leave, False)]
        for path in branch_candidates(block.module)[0]:
            hook = _with_path(record, path)
            hooks.append((block.module.get_submodule(path), hook, False))
    tokens = random_tokens(module, _N_TOKENS)
    d_model = int(text_config(module).hidden_size)
    with _hooked(hooks):
        _forward(module, found.backbone, tokens)
    for index, _ in enumerate(found.blocks):
        shape = tuple(streams[index][0].shape) if index in streams else None
        if shape != (1, len(tokens), d_model):
            raise ValueError(
                f"architecture: block {index} of {type(module).__name__} passes on {shape}, not "
                f"[row, slot, d_model] = {(1, len(tokens), d_model)}; only decoder-only models "
                "with one residual stream are supported"
            )

    unavailable: dict[str, str] = {}
    if found.final_norm is None:
        unavailable["final_norm"] = "it has no norm behind its last block"
    blocks = []
    for index, block in enumerate(found.blocks):
        pair = _branches(block.module, streams[index], outputs[index])
        if pair is None:
            tried = ", ".join(outputs[index]) or "none, for none has the stream's shape"
            reason = (
                f"in block {index} no two modules add up: pre + attention + mlp == post "
                f"(tried: {tried})"
            )
            unavailable |= dict.fromkeys(("resid_mid", "attn_out", "mlp_out"), reason)
            return replace(found, unavailable=unavailable)
        blocks.append(Block(block.module, *map(block.module.get_submodule, pair)))
    found = replace(found, blocks=tuple(blocks), unavailable=unavailable)
    if _is_parallel(module, found, tokens):
        unavailable["resid_mid"] = "its attention and MLP run in parallel on the same input"
    return replace(found, unavailable=unavailable)


def _with_path(record: Callable[..., None], path: str) -> Callable[..., None]:
    def hook(module: Any, args: Any, output: Any) -> None:
        record(module, args, output, path=path)

    return hook


def _branches(
    block: nn.Module, stream: tuple[Tensor, Tensor], outputs: dict[str, Tensor]
) -> tuple[str, str] | None:
    """Return the paths of attention and MLP; `outputs` are in the order in which modules ran."""
    pre, post = stream
    attention_paths, mlp_paths = branch_candidates(block)
    order = {path: index for index, path in enumerate(outputs)}
    for attention in filter(order.__contains__, attention_paths):
        for mlp in filter(order.__contains__, mlp_paths):
            # Without the order, Jamba's unnamed pair of mixer and MLP would be found swapped.
            if order[attention] < order[mlp] and _adds_up(
                pre, outputs[attention], outputs[mlp], post
            ):
                return attention, mlp
    return None


def _is_parallel(module: nn.Module, found: Architecture, tokens: list[int]) -> bool:
    """Tell whether the first block's MLP ignores what its attention has added."""
    block = found.blocks[0]
    assert block.attention is not None
    assert block.mlp is not None
    seen: list[Tensor] = []

    def see(_: Any, __: Any, output: Any) -> None:
        seen.append(first_tensor(output).clone())

    def disturb(_: Any, __: Any, output: Any) -> Any:
        states = first_tensor(output)
        noise = torch.linspace(-1, 1, states.numel(), device=states.device).reshape(states.shape)
        disturbed = states + (noise * (1 + states.abs().max())).to(states.dtype)
        return (disturbed, *output[1:]) if isinstance(output, tuple) else disturbed

    with _hooked([(block.mlp, see, False)]):
        _forward(module, found.backbone, tokens)
        with _hooked([(block.attention, disturb, False)]):
            _forward(module, found.backbone, tokens)
    return torch.equal(seen[0], seen[1])


def _prove_readout(module: nn.Module, found: Architecture) -> Architecture:
    if found.readout is None or found.final_norm is None:
        return replace(found, readout_problem="it has no final norm or no unembedding")
    normed: list[Tensor] = []

    def see(_: Any, __: Any, output: Any) -> None:
        normed.append(first_tensor(output).clone())

    with _hooked([(found.final_norm, see, False)]):
        own = _forward(module, module, random_tokens(module, _N_TOKENS)).logits.float()
    try:
        logits = found.readout(normed[-1])
        rounding = _ROUNDING_STEPS * torch.finfo(normed[-1].dtype).eps
        tolerance = rounding * max(1.0, float(own.abs().max()))
        exact = logits.shape == own.shape and float((logits - own).abs().max()) <= tolerance
    except RuntimeError:
        exact = False
    if exact:
        return found
    return replace(found, readout_problem="its logits are not the unembedding of its final norm")
