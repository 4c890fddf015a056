"""What must be equal for two captures of one model to give the same bits; the model has a fingerprint of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from hooks.backends import Backend
from hooks.model import Model
from hooks.prompts import Rendered


def capture_fingerprint(
    model: Model,
    prompts: Sequence[Rendered],
    options: Mapping[str, Sequence[int]],
    batching: str,
    backend: Backend,
) -> dict[str, Any]:
    """Return prompts, batching, backend, device, threads, versions and interventions: flat and JSON-able."""
    device = model.device
    return {
        "prompts": _prompts_sha256(prompts),
        "truncated": sorted(prompt.id for prompt in prompts if prompt.n_cut),
        "options": {name: list(ids) for name, ids in options.items()},
        "batching": batching,
        "backend": backend.name,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        # The order of summation, and with it the last bits, depends on the number of threads.
        "threads": torch.get_num_threads() if device.type == "cpu" else None,
        "matmul": torch.get_float32_matmul_precision(),
        "interventions": interventions_digest(model),
        **{library: version(library) for library in ("torch", "transformers", *backend.libraries)},
    }


def interventions_digest(model: Model) -> str | None:
    """Return a hash of all that is active on a model, in order; None if nothing is.

    Interventions of one's own that are no dataclasses are told apart by identity.
    """
    active = [one for several in model.interventions for one in several]
    if not active:
        return None
    digest = hashlib.sha256()
    for intervention in active:
        digest.update(type(intervention).__qualname__.encode())
        if not is_dataclass(intervention):
            digest.update(str(id(intervention)).encode())
            continue
        for field in fields(intervention):
            digest.update(field.name.encode())
            for part in _flat(getattr(intervention, field.name)):
                digest.update(part)
    return digest.hexdigest()


def _flat(value: Any) -> Iterator[bytes]:
    if isinstance(value, Tensor):
        yield value.detach().float().cpu().contiguous().numpy().tobytes()
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield str(key).encode()
            yield from _flat(value[key])
    else:
        yield repr(value).encode()


def _prompts_sha256(prompts: Sequence[Rendered]) -> str:
    """Hash what the model reads and where positions lie, whatever the order of the prompts."""
    rows = sorted((p.id, list(p.token_ids), sorted(p.spans.items())) for p in prompts)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
