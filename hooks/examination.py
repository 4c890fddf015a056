"""What `examine` finds out about a model: plain records, ready for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hooks.completion_format import CHAT_TEMPLATE

FLOAT16_MAX = 65_504.0


@dataclass(frozen=True)
class Finding:
    """One property of a model.

    Attributes:
        holds: whether the model has it.
        difference: what was measured, None where nothing could be: the largest L2 norm of a vector's difference, over
            the norm of the vector.
        note: why it does not hold, or where the difference lies.
        agrees: False where a measurement contradicts what was proved, so that results would be wrong.
    """

    holds: bool
    difference: float | None = None
    note: str = ""
    agrees: bool = True


@dataclass(frozen=True)
class Branches:
    """The modules of block 0 that attention and MLP add by; empty names where none add up.

    Attributes:
        attention: its path in the block.
        mlp: its path in the block.
        order: `sequential`, `parallel`, or `unknown`.
        sum: whether pre + attn + mlp == post in every block.
    """

    attention: str
    mlp: str
    order: str
    sum: Finding


@dataclass(frozen=True)
class TokenizerFindings:
    """How prompts become tokens.

    Attributes:
        bos: the BOS token, or None where the tokenizer defines none.
        prompt_format: as `Model.prompt_format`: "chat template", or "completion" where there is none.
        template_writes_bos: whether the template itself puts BOS in front; None without a template or a BOS.
        bos_in_front: whether rendered prompts begin with exactly one BOS, or with none where none is defined.
        system_role: `accepted`; `folded: refused` or `folded: dropped` into the user's message, by what the template
            does with it.
    """

    bos: str | None
    prompt_format: str
    template_writes_bos: bool | None
    bos_in_front: Finding
    system_role: str

    @property
    def has_template(self) -> bool:
        """Whether there is a chat template."""
        return self.prompt_format == CHAT_TEMPLATE


@dataclass(frozen=True)
class BackendFinding:
    """How far a backend is from the reference.

    Attributes:
        backend: its name.
        states: the largest difference over every site, layer and layout that it reads; `holds` is False where it reads
            none at all.
        refused: sites that it does not read, with the reasons.
    """

    backend: str
    states: Finding
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Examination:
    """Everything that is known about a model after an examination.

    Attributes:
        model: its name.
        model_type: as transformers calls it.
        dtype, device, attention: what it computed in, where, and by which attention implementation.
        n_layers, d_model, max_length: its sizes; the most tokens it reads.
        window: the longest prompt that all layers attend to in full (and read like a short one), or None.
        sites: the sites that can be read.
        unavailable: those that cannot, with the reasons.
        branches: attention and MLP.
        readout: whether final norm and unembedding give the model's own logits.
        sharing: whether prompts that share a prefix may be computed in one row.
        padding: by side, whether a padded prompt gets the states that it gets alone.
        tokenizer: how prompts become tokens.
        magnitudes: per layer the largest element of the residual stream over all tokens of all prompts.
        backends: the backends beside the reference.
        n_prompts, n_tokens: what was measured on.
    """

    model: str
    model_type: str
    dtype: str
    device: str
    attention: str
    n_layers: int
    d_model: int
    max_length: int
    window: int | None
    sites: tuple[str, ...]
    unavailable: Mapping[str, str]
    branches: Branches
    readout: Finding
    sharing: Finding
    padding: Mapping[str, Finding]
    tokenizer: TokenizerFindings
    magnitudes: tuple[float, ...]
    backends: tuple[BackendFinding, ...]
    n_prompts: int
    n_tokens: int

    @property
    def overflowing(self) -> tuple[int, ...]:
        """The layers whose residual stream float16 cannot hold."""
        return tuple(
            layer for layer, largest in enumerate(self.magnitudes) if not largest <= FLOAT16_MAX
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """What contradicts what was proved, each as one clause; empty where everything agrees."""
        infinite = [layer for layer, size in enumerate(self.magnitudes) if math.isinf(size)]
        if infinite:  # From which all else follows.
            return (
                f"residual stream: not finite in {self.dtype} from layer {infinite[0]} on; "
                "choose bfloat16 or float32",
            )
        named = {
            "pre + attn + mlp == post": self.branches.sum,
            "readout": self.readout,
            "shared prefixes": self.sharing,
            **{f"padding on the {side}": finding for side, finding in self.padding.items()},
            "BOS": self.tokenizer.bos_in_front,
            **{f"backend {found.backend}": found.states for found in self.backends},
        }
        return tuple(f"{name}: {found.note}" for name, found in named.items() if not found.agrees)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able values, with `overflowing` and `problems`; what is not finite is None."""
        found = {**asdict(self), "overflowing": self.overflowing, "problems": self.problems}
        plain: dict[str, Any] = _finite(found)
        return plain


def _finite(value: Any) -> Any:
    """Turn tuples into lists and numbers that JSON does not know into None."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
