"""A copy of a model's module tree that shares its tensors, for libraries that change what they wrap.

TransformerBridge replaces submodules in place, and nnsight puts a `forward` of its own on each of them for good. Given
a twin, they leave the model itself as it was, and no weight is held twice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from torch import nn

from hooks.architecture import text_config
from hooks.model import Model

T = TypeVar("T")

_HOOK_TABLES = tuple(name for name in vars(nn.Module()) if "_hooks" in name)


def twin(module: nn.Module) -> nn.Module:
    """Copy the module tree and the configs, share parameters and buffers, leave all hooks behind."""
    memo: dict[int, Any] = {id(tensor): tensor for tensor in _tensors(module)}
    for part in module.modules():
        for table in _HOOK_TABLES:
            hooks = part.__dict__.get(table)
            if isinstance(hooks, dict):
                memo[id(hooks)] = type(hooks)()
    return copy.deepcopy(module, memo)


class Twins(Generic[T]):
    """Keeps what a backend has built around the twin of a model.

    It lives as long as the model, and is built anew when the model's modules, tensors or attention implementation
    have been changed or replaced.
    """

    def __init__(self, build: Callable[[Model, nn.Module], T]) -> None:
        self._build = build
        self._built: WeakKeyDictionary[Model, tuple[Any, T]] = WeakKeyDictionary()

    def of(self, model: Model) -> T:
        """Return what was built for a model, or build it; errors of the builder pass through."""
        state = _state(model.module)
        known = self._built.get(model)
        if known is None or known[0] != state:
            known = self._built[model] = (state, self._build(model, twin(model.module)))
        return known[1]


def refuse_hooks(model: Model, backend: str) -> None:
    """Raise ValueError if interventions or other hooks are active on the model: they would not reach its twin."""
    for path, part in model.module.named_modules():
        for hook in chain(part._forward_hooks.values(), part._forward_pre_hooks.values()):
            if not str(getattr(hook, "__module__", "")).startswith("transformers."):
                raise ValueError(
                    f"backend: {backend!r} does not see interventions and hooks, and "
                    f'{path or "the model"!r} has one; use backend="torch"'
                )


def attention_of(module: nn.Module) -> str:
    """Return the attention implementation that the language model runs."""
    return str(text_config(module)._attn_implementation)


def _tensors(module: nn.Module) -> Iterator[Any]:
    return chain(module.parameters(), module.buffers())


def _state(module: nn.Module) -> tuple[Any, ...]:
    """Identify modules, tensors and attention; a tensor's version counts the writes to it."""
    return (
        attention_of(module),
        *(id(part) for part in module.modules()),
        *((id(t), 0 if t.is_inference() else t._version) for t in _tensors(module)),
    )
