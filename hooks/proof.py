"""Proves, by small forward passes on random tokens, what may be read out of a model and how.

- `pre + attention + mlp == post` in every block picks the modules whose outputs the branches add,
  attention being the one that runs first; where no pair of modules satisfies it, `attn_out`,
  `mlp_out` and `resid_mid` are unavailable.
- Noise on the first block's attention must reach its MLP; where it does not, the block is parallel
  and has no `resid_mid` (as in TransformerLens).
- The readout of the final states must equal the model's own logits.
- What it keeps of the tokens it has read must be a cache whose rows can be repeated and dropped.
- `hooks.layout_proof`: padding must change nothing, and shared prefixes must be exact.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hooks.agreement import differences
from hooks.architecture import (
    Architecture,
    Block,
    attention_window,
    block_input,
    branch_candidates,
    find_backbone,
    find_blocks,
    find_cache,
    find_final_norm,
    find_readout,
    first_tensor,
    rope_switch,
    text_config,
)
from hooks.layout_proof import prove_layouts, random_tokens

_N_TOKENS = 8
# Two sums, each off by half a step at most.
_ROUNDING_STEPS = 2

_Hook = tuple[nn.Module, Callable[..., Any], bool]


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
        found = prove_layouts(module, found)
        return replace(found, cache_problem=_cache_problem(module, found))


@contextmanager
def _hooked(hooks: Iterable[_Hook]) -> Iterator[None]:
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
    return called(input_ids=torch.tensor([tokens], device=_device(module)), use_cache=False)


def _device(module: nn.Module) -> torch.device:
    device = module.get_input_embeddings().weight.device  # type: ignore[operator]
    assert isinstance(device, torch.device)
    return device


def _shaped(states: Tensor, like: Tensor) -> Tensor | None:
    """Return a copy with the shape of the stream: OPT's MLP sees its rows flattened."""
    if states.numel() != like.numel() or states.shape[-1] != like.shape[-1]:
        return None
    return states.reshape(like.shape).clone()


def _adds_up(pre: Tensor, attention: Tensor, mlp: Tensor, post: Tensor) -> bool:
    # Parts of a model that is spread over several devices lie on more than one.
    parts = [part.to(post.device).float() for part in (pre, attention, mlp)]
    bound = parts[0].abs() + parts[1].abs() + parts[2].abs()
    rounding = _ROUNDING_STEPS * torch.finfo(post.dtype).eps
    total = parts[0] + parts[1] + parts[2]
    return bool(((total - post.float()).abs() <= rounding * bound).all())


@dataclass
class _BlockRecord:
    """What went into a block, what came out, and what its modules returned in the order in which they ran."""

    pre: Tensor | None = None
    post: Tensor | None = None
    outputs: dict[str, Tensor] = field(default_factory=dict)

    def hooks(self, block: nn.Module) -> Iterator[_Hook]:
        """Return hooks that fill it in. All is cloned: Falcon adds in place to what its modules have returned."""
        yield block, self._enter, True
        yield block, self._leave, False
        for path in branch_candidates(block)[0]:
            yield block.get_submodule(path), partial(self._record, path), False

    def _enter(self, _: Any, args: Any, kwargs: Any) -> None:
        self.pre = block_input(args, kwargs).clone()

    def _leave(self, _: Any, __: Any, output: Any) -> None:
        self.post = first_tensor(output).clone()

    def _record(self, path: str, _: Any, __: Any, output: Any) -> None:
        value = output[0] if isinstance(output, tuple | list) and output else output
        # OpenAI GPT's blocks share one activation module: only what runs inside counts.
        if self.pre is not None and self.post is None and isinstance(value, Tensor):
            shaped = _shaped(value, self.pre)
            if shaped is not None:
                self.outputs[path] = shaped


def _prove_branches(module: nn.Module, found: Architecture) -> Architecture:
    records = [_BlockRecord() for _ in found.blocks]
    tokens = random_tokens(module, _N_TOKENS)
    hooks = [
        hook
        for record, block in zip(records, found.blocks, strict=True)
        for hook in record.hooks(block.module)
    ]
    with _hooked(hooks):
        _forward(module, found.backbone, tokens)
    _check_streams(module, records, len(tokens))
    unavailable: dict[str, str] = {}
    if found.final_norm is None:
        unavailable["final_norm"] = "it has no norm behind its last block"
    blocks = []
    for index, (block, record) in enumerate(zip(found.blocks, records, strict=True)):
        pair = _branches(block.module, record)
        if pair is None:
            tried = ", ".join(record.outputs) or "none, for none has the stream's shape"
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


def _check_streams(module: nn.Module, records: list[_BlockRecord], n_tokens: int) -> None:
    wanted = (1, n_tokens, int(text_config(module).hidden_size))
    for index, record in enumerate(records):
        shape = None if record.pre is None or record.post is None else tuple(record.pre.shape)
        if shape != wanted:
            raise ValueError(
                f"architecture: block {index} of {type(module).__name__} passes on {shape}, not "
                f"[row, slot, d_model] = {wanted}; only decoder-only models "
                "with one residual stream are supported"
            )


def _branches(block: nn.Module, record: _BlockRecord) -> tuple[str, str] | None:
    """Return the paths of attention and MLP."""
    pre, post, outputs = record.pre, record.post, record.outputs
    assert pre is not None
    assert post is not None
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
    states, unembedding = normed[-1], found.readout.unembedding
    # OPT-350m projects between the two.
    if getattr(unembedding, "in_features", states.shape[-1]) == states.shape[-1]:
        logits = found.readout(states)
        tolerance = _ROUNDING_STEPS * torch.finfo(states.dtype).eps
        if logits.shape == own.shape and bool((differences(logits, own) <= tolerance).all()):
            return found
    return replace(found, readout_problem="its logits are not the unembedding of its final norm")


def _cache_problem(module: nn.Module, found: Architecture) -> str:
    """Tell why the cache is none of those of transformers, all of whose states follow its rows; "" if it is one."""
    tokens = torch.tensor([random_tokens(module, 2)], device=_device(module))
    _, cache = find_cache(found.backbone(input_ids=tokens, use_cache=True))
    for part in (cache, *getattr(cache, "layers", ())):
        if type(part).__module__ != "transformers.cache_utils":
            return f"it keeps what it has read in a {type(part).__name__} of its own"
    return ""
