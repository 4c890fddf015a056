"""A loaded model: the Hugging Face module, its tokenizer, its sizes and its fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from hooks.activations import Attachment
from hooks.architecture import Architecture, text_config
from hooks.batching import Batch, Reading
from hooks.completion_format import COMPLETION, prompt_format
from hooks.proof import prove_architecture
from hooks.weights import Weights, check_hub, locate_weights, quiet_transformers

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_NO_LIMIT = 2**31 - 1


@dataclass(eq=False)
class Model:
    """A decoder-only model in evaluation mode, and what is known about it.

    Attributes:
        name: what it was loaded as.
        module: the Hugging Face causal language model.
        tokenizer: its tokenizer, never changed.
        architecture: its parts, and which sites were proved readable.
        n_layers: number of decoder blocks.
        d_model: width of the residual stream.
        max_length: the most tokens that a prompt and its completion may have together.
        weights_id: a hub commit, or the sha256 of local weights.
        revision: the hub revision that was asked for.
        current: what is being read right now, for interventions at named positions.
        n_apart: how many active interventions treat the prompts of a batch apart.
        interventions: what is active, by `with` block.
        attachments: what is given states of every prompt that is read.
    """

    name: str
    module: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    architecture: Architecture = field(repr=False)
    n_layers: int
    d_model: int
    max_length: int
    weights_id: str
    revision: str | None = None
    current: Reading | None = field(default=None, repr=False)
    n_apart: int = 0
    interventions: list[Any] = field(default_factory=list, repr=False)
    attachments: list[Attachment] = field(default_factory=list, repr=False)
    _versions: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        tokenizer: Any,
        *,
        name: str,
        weights_id: str | None = None,
        revision: str | None = None,
    ) -> Model:
        """Wrap a module that is already in memory, and put it into evaluation mode.

        Without a `weights_id` the parameters are hashed.

        Raises:
            ValueError: the module is no decoder-only model, or a parameter has no values or no numbers.
        """
        module.eval()
        _check_parameters(module)
        config = text_config(module)
        return cls(
            name=name,
            module=module,
            tokenizer=tokenizer,
            architecture=prove_architecture(module),
            n_layers=int(config.num_hidden_layers),
            d_model=int(config.hidden_size),
            max_length=_max_length(config, tokenizer),
            weights_id=weights_id or _parameters_sha256(module),
            revision=revision,
            _versions=_parameter_versions(module),
        )

    @property
    def device(self) -> torch.device:
        """Where token ids go: the device of the embedding."""
        weight = self.module.get_input_embeddings().weight
        assert isinstance(weight, torch.Tensor)
        return weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the weights."""
        dtype = self.module.dtype
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def pad_id(self) -> int:
        """What padding is filled with; it is always masked."""
        for token in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        return 0

    @property
    def prompt_format(self) -> str:
        """How messages are put to it: by its "chat template", or without one in a "completion" format."""
        return prompt_format(self.tokenizer)

    @property
    def fingerprint(self) -> dict[str, str | int | None]:
        """What must be equal for two runs to have seen the same states: flat, JSON-able.

        Weights that were written to or replaced since the model was loaded are hashed.
        """
        config = self.module.config
        changed = _parameter_versions(self.module) != self._versions
        return {
            "name": self.name,
            "weights": _parameters_sha256(self.module) if changed else self.weights_id,
            "config": _config_sha256(config),
            "revision": self.revision,
            "dtype": str(self.dtype).removeprefix("torch."),
            "attention": str(getattr(config, "_attn_implementation", "")),
            "tokenizer": _tokenizer_sha256(self.tokenizer),
            "template": _json_sha256(getattr(self.tokenizer, "chat_template", None) or ""),
            "n_layers": self.n_layers,
            "d_model": self.d_model,
            "processing": "raw",
            # Fingerprints of models with a template are older than this.
            **({"prompt_format": COMPLETION} if self.prompt_format == COMPLETION else {}),
        }

    @contextmanager
    def attached(self, attachment: Attachment) -> Iterator[None]:
        """Give an attachment its states of all prompts that `capture` and `generate` read inside the block.

        It sees what interventions have changed. Prompts that are not read again (`generate(kept=)`) do not come again.
        """
        self.attachments.append(attachment)
        try:
            yield
        finally:
            # In place: a copy of the record (`dataclasses.replace`) holds the same list.
            self.attachments[:] = [one for one in self.attachments if one is not attachment]

    @property
    def attached_positions(self) -> tuple[str, ...]:
        """The named positions that attachments want."""
        return tuple(position for one in self.attachments for position in one.spec.positions)

    @contextmanager
    def reading(self, batch: Batch) -> Iterator[Reading]:
        """Make a batch known to interventions at named positions while it is being read."""
        before, reading = self.current, Reading(batch)
        self.current = reading
        try:
            # A caller's autocast would change the numbers, and the fingerprint would not know.
            with torch.autocast(self.device.type, enabled=False):
                yield reading
        finally:
            self.current = before


def load_model(
    name: str,
    *,
    dtype: str = "float32",
    device: str | None = None,
    attn_implementation: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Model:
    """Load a model by name and prove which of its sites can be read.

    Args:
        name: `smollm2-135m` (embedded), a hub id, a local folder, or a `.gguf` file.
        dtype: `float32`, `bfloat16` or `float16`.
        device: a torch device, or "auto" to spread the model by transformers' `device_map`;
            CUDA where there is one, else the CPU, by default.
        attn_implementation: `sdpa` or `eager`, as transformers names them; by default `sdpa`
            where the family has it (Gemma 2, GPT-OSS and Bloom have not), else `eager`.
        revision: branch, tag or commit of a hub id.
        trust_remote_code: whether to run code that comes with the model.

    Raises:
        ValueError: one line that names what cannot be loaded, and what is possible.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype: unknown dtype {dtype!r}; choose from {', '.join(DTYPES)}")
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    weights = locate_weights(name)
    if weights.is_hub_id:
        check_hub(name, revision)
    tokenizer, module = _from_pretrained(
        name, weights, revision, trust_remote_code, DTYPES[dtype], device, attn_implementation
    )
    commit = getattr(module.config, "_commit_hash", None)
    return Model.from_module(
        module,
        tokenizer,
        name=name,
        weights_id=weights.sha256 or commit,
        revision=revision,
    )


def _from_pretrained(
    name: str,
    weights: Weights,
    revision: str | None,
    trust_remote_code: bool,
    dtype: torch.dtype,
    device: str,
    attn_implementation: str | None,
) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    common: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if revision is not None:
        common["revision"] = revision
    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(weights.source, **common)
            module, report = AutoModelForCausalLM.from_pretrained(
                weights.source,
                dtype=dtype,
                attn_implementation=attn_implementation,
                output_loading_info=True,
                **({"device_map": "auto"} if device == "auto" else {}),
                **common,
            )
        except Exception as error:
            # A damaged folder fails in any way, a cut safetensors file with an error of its own.
            raise ValueError(_load_failure(name, weights, error)) from error
        if missing := sorted(report["missing_keys"]):
            raise ValueError(
                f"model: {name} lacks {len(missing)} weights that its config asks for, for example "
                f"{missing[0]}; random ones would take their place, so get it again"
            )
        if device != "auto":
            try:
                module.to(device)
            except (RuntimeError, AssertionError) as error:  # a build without CUDA asserts
                reason = str(error).partition("\n")[0]
                raise ValueError(f"device: {device!r} cannot hold the model: {reason}") from error
    return tokenizer, module


def _load_failure(name: str, weights: Weights, error: Exception) -> str:
    reason = " ".join((str(error) or type(error).__name__).split())[:200]
    if weights.is_hub_id:
        return f"model: the hub's {name!r} cannot be loaded: {reason}"
    return f"model: {name} cannot be loaded: {reason}; if it was cut or changed, get it again"


def _max_length(config: Any, tokenizer: Any) -> int:
    limits = (getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
    return next((int(limit) for limit in limits if limit and limit < _NO_LIMIT), _NO_LIMIT)


def _check_parameters(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if parameter.is_meta:
            raise ValueError(
                f"model: parameter {name} is on the meta device, without values; load the weights"
            )
        if not bool(torch.isfinite(parameter).all()):
            raise ValueError(
                f"model: parameter {name} holds NaN or infinity in {parameter.dtype}; load it in a wider "
                "dtype, or get the weights again"
            )


def _parameter_versions(module: nn.Module) -> tuple[tuple[int, int], ...]:
    """Identify the parameters; a tensor's version counts the writes to it."""
    return tuple((id(p), 0 if p.is_inference() else p._version) for p in module.parameters())


def _config_sha256(config: Any) -> str:
    """Hash what changes the computation: no paths, versions or names of types."""
    passing = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "_commit_hash")
    settings = {k: v for k, v in config.to_dict().items() if k not in passing}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def _parameters_sha256(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, parameter in sorted(module.named_parameters()):
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}\n".encode())
        data = parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(data.numpy().tobytes())
    return digest.hexdigest()


def _tokenizer_sha256(tokenizer: Any) -> str:
    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    # Calls with padding or truncation leave these behind in the tokenizer.
    definition["padding"] = definition["truncation"] = None
    return _json_sha256([definition, tokenizer.bos_token, tokenizer.eos_token])


def _json_sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
