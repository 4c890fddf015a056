"""Proves, by small forward passes on random tokens, what may be read out of a model and how.

- `pre + attention + mlp == post` in every block picks the modules whose outputs the branches add;
  where no pair of modules satisfies it, `attn_out`, `mlp_out` and `resid_mid` are unavailable.
- Noise on the first block's attention must reach its MLP; where it does not, the block is parallel
  and has no `resid_mid` (as in TransformerLens).
- The readout of the final states must equal the model's own logits.
- Two prompts that share a prefix in one row must get the states that each gets alone.
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
    find_blocks,
    find_final_norm,
    find_readout,
    first_tensor,
    text_config,
)
from hooks.batching import padded_batch, shared_batch
from hooks.prompts import Rendered

_N_TOKENS = 8
_N_SHARED = 5
_ROUNDING_STEPS = 8


def prove_architecture(module: nn.Module) -> Architecture:
    """Find the parts of a model and prove them.

    Raises:
        ValueError: there are no decoder blocks, or they do not pass on `[row, slot, d_model]`.
    """
    config = text_config(module)
    path, blocks = find_blocks(module, int(config.num_hidden_layers))
    stack = module.get_submodule(path.rpartition(".")[0])
    backbone: nn.Module = module.base_model if isinstance(module.base_model, nn.Module) else module
    if not any(child is blocks for child in backbone.modules()):
        backbone = module
    found = Architecture(
        backbone=backbone,
        blocks=tuple(Block(block) for block in blocks),
        final_norm=find_final_norm(stack, int(config.hidden_size)),
        readout=find_readout(module),
        window=attention_window(config),
        takes_position_ids="position_ids" in inspect.signature(backbone.forward).parameters,
    )
    with torch.inference_mode():
        found = _prove_branches(module, found)
        found = _prove_readout(module, found)
        return replace(found, sharing_problem=_sharing_problem(module, found))


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


def _tokens(module: nn.Module, n: int = _N_TOKENS, seed: int = 0) -> list[int]:
    vocab = module.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab, (n,), generator=generator).tolist()


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
            if isinstance(value, Tensor):
                shaped = _shaped(value, entered[index])
                if shaped is not None:
                    outputs[index][path] = shaped

        hooks += [(block.module, enter, True), (block.module, leave, False)]
        for path in branch_candidates(block.module)[0]:
            hook = _with_path(record, path)
            hooks.append((block.module.get_submodule(path), hook, False))
    tokens = _tokens(module)
    with _hooked(hooks):
        _forward(module, found.backbone, tokens)
    for index, _ in enumerate(found.blocks):
        if index not in streams or streams[index][0].shape[:2] != (1, len(tokens)):
            raise ValueError(
                f"architecture: block {index} of {type(module).__name__} does not pass on "
                "[row, slot, d_model]; only decoder-only models are supported"
            )

    unavailable: dict[str, str] = {}
    if found.final_norm is None:
        unavailable["final_norm"] = "it has no norm behind its last block"
    blocks = []
    for index, block in enumerate(found.blocks):
        pair = _branches(block.module, streams[index], outputs[index])
        if pair is None:
            reason = f"in block {index} no two modules add up: pre + attention + mlp == post"
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
    pre, post = stream
    attention_paths, mlp_paths = branch_candidates(block)
    for attention in attention_paths:
        for mlp in mlp_paths:
            if (
                attention != mlp
                and attention in outputs
                and mlp in outputs
                and _adds_up(pre, outputs[attention], outputs[mlp], post)
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
        own = _forward(module, module, _tokens(module)).logits.float()
    try:
        logits = found.readout(normed[-1])
        tolerance = 100 * torch.finfo(normed[-1].dtype).eps * max(1.0, float(own.abs().max()))
        exact = logits.shape == own.shape and float((logits - own).abs().max()) <= tolerance
    except RuntimeError:
        exact = False
    if exact:
        return found
    return replace(found, readout_problem="its logits are not the unembedding of its final norm")


def _sharing_problem(module: nn.Module, found: Architecture) -> str:
    if not found.takes_position_ids:
        return "it takes no position ids"
    prefix = tuple(_tokens(module, _N_SHARED))
    prompts = [
        Rendered(str(seed), (*prefix, *_tokens(module, _N_TOKENS - _N_SHARED, seed)), {})
        for seed in (1, 2)
    ]
    device = module.get_input_embeddings().weight.device  # type: ignore[operator]
    dtype: torch.dtype = module.dtype  # type: ignore[assignment]
    states = []
    try:
        for batch in (shared_batch([prompts], 0), *(padded_batch([p], 0) for p in prompts)):
            output = found.backbone(
                input_ids=batch.token_ids.to(device),
                position_ids=batch.position_ids.to(device),
                attention_mask=batch.attention_mask(dtype).to(device),
                use_cache=False,
            ).last_hidden_state.float()
            states += [output[0, list(slots)] for slots in batch.slots]
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return f"it refuses a mask of its own shape: {str(error).partition(chr(10))[0]}"
    tolerance = 200 * torch.finfo(dtype).eps
    for together, alone in zip(states[:2], states[2:], strict=True):
        bound = tolerance * max(1.0, float(alone.abs().max()))
        if float((together - alone).abs().max()) > bound:
            return "its states depend on where in a row a token lies"
    return ""
