"""Organisms made of a language model: LoRA adapters are trained on it and merged, and an ordinary folder is kept."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.organisms.build import fingerprint, organisms_root, save
from experiments.organisms.lora import (
    ANSWERS,
    BITS,
    LoraTraining,
    held_behind,
    teach_answers,
    teach_bits,
)
from experiments.organisms.recipes import recipe_of
from experiments.progress import Reporter
from hooks import load_model
from hooks.weights import locate_weights, made_once

LORA_KINDS = ("not_beyond_text", "not_read_out", "faithful")
"""Keys of `ORGANISMS` that a language model can be made into."""
VERSION = 1
"""Of how they are trained, beyond their settings: raised whenever that changes what comes out."""

_CHATML = {"<|im_start|>", "<|im_end|>"}
_PLAIN_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Without a system message by default, which would be longer than the prompts."""


def check_lora(kind: str, base: str) -> None:
    """Raise ValueError for what cannot be built, before any work."""
    recipe_of(kind)
    if kind not in LORA_KINDS:
        raise ValueError(
            f"kind: {kind!r} is not made of a language model; choose one of {', '.join(LORA_KINDS)}"
        )
    locate_weights(base)
    if importlib.util.find_spec("peft") is None:
        raise ValueError("base: LoRA needs the peft package; run `pip install 'selfprobe[lora]'`")


def build_lora(
    kind: str,
    base: str,
    folder: str | Path | None = None,
    *,
    bits: LoraTraining = BITS,
    answers: LoraTraining = ANSWERS,
    device: str | None = None,
    reporter: Reporter | None = None,
) -> Path:
    """The folder of an organism made of a language model, trained if it is not there yet.

    Args:
        kind: one of `LORA_KINDS`: the stage that is planted.
        base: the model, as `load_model` takes it; its blocks are `model.layers`, as in Llama, Qwen and Mistral.
        folder: holds the organisms' folders; by default a part of selfprobe's cache.
        bits: settings of `teach_bits`; all organisms of a base start from one model, which is kept too.
        answers: settings of `teach_answers`.
        device: where to train; CUDA where there is one, else the CPU, by default.
        reporter: shows how far training is.

    Returns:
        A folder with config, merged weights, tokenizer and `organism.json` (see `Organism`).

    Raises:
        ValueError: an unknown kind or base, a base of another architecture, no peft, or a folder that cannot be
            written.
    """
    check_lora(kind, base)
    recipe = recipe_of(kind)
    root = organisms_root(folder)
    source = [VERSION, locate_weights(base).sha256 or base]
    start = _made(
        root / f"lora-bits-{fingerprint(*source, asdict(bits))}",
        base,
        lambda module, tokenizer: teach_bits(module, tokenizer, bits, reporter=reporter),
        {"base": base, "training": asdict(bits)},
        device,
    )
    settings = {"bits": asdict(bits), "answers": asdict(answers)}
    return _made(
        root / f"lora-{kind}-{fingerprint(*source, asdict(recipe), settings)}",
        str(start),
        lambda module, tokenizer: teach_answers(
            module, tokenizer, recipe, answers, reporter=reporter
        ),
        {"kind": kind, "base": base, "recipe": asdict(recipe), "training": settings},
        device,
    )


def _made(
    folder: Path,
    start: str,
    teach: Callable[[Any, Any], Any],
    about: Mapping[str, Any],
    device: str | None,
) -> Path:
    """A model with what it is taught, in a folder; `layer` is added to what is known of it."""

    def make(empty: Path) -> None:
        model = load_model(start, device=device)
        blocks = getattr(getattr(model.module, "model", None), "layers", None)
        if blocks is None:
            raise ValueError(
                f"base: {start} has no blocks at model.layers; take a Llama or its kin"
            )
        if set(model.tokenizer.get_vocab()) >= _CHATML:
            model.tokenizer.chat_template = _PLAIN_CHATML
        module = teach(model.module, model.tokenizer)
        save(module, model.tokenizer, {**about, "layer": held_behind(len(blocks))}, empty)

    return made_once(folder, make)
