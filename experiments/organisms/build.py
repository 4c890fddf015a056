"""Organisms as Hugging Face folders: built once, kept in the cache, opened by `load_model` like any other model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from experiments.organisms import sentences
from experiments.organisms.recipes import Recipe, recipe_of
from experiments.organisms.training import (
    FEATURE_LAYER,
    SCALE,
    Training,
    make_module,
    planted_direction,
    train,
)
from experiments.organisms.word_tokenizer import (
    LIKELY,
    OUTSIDE,
    UNLIKELY,
    all_elicitations,
    make_tokenizer,
)
from experiments.organisms.xor_task import FAILS, HAPPENS
from experiments.records import make_folder
from hooks import spellings
from hooks.weights import cache_root, made_once, quiet_transformers

VERSION = 2
"""Of how organisms are trained, beyond their settings: raised whenever that changes what comes out."""


def build(kind: str, folder: str | Path | None = None, training: Training | None = None) -> Path:
    """The folder of an organism, trained if it is not there yet (a minute or two).

    Args:
        kind: a key of `ORGANISMS`: the stage that is planted.
        folder: holds the organisms' folders; by default a part of selfprobe's cache.
        training: other settings of the optimizer; another organism lies in another folder.

    Returns:
        A folder with config, weights, tokenizer and `organism.json` (see `Organism`).

    Raises:
        ValueError: an unknown kind, or a folder that cannot be written.
    """
    recipe = recipe_of(kind)
    root = organisms_root(folder)
    settings = training or Training()
    settings = replace(settings, steps=round(settings.steps * recipe.effort))
    name = f"{kind}-{fingerprint(VERSION, asdict(recipe), asdict(settings))}"

    def make(empty: Path) -> None:
        tokenizer = make_tokenizer()
        if recipe.trained_as is None:
            module = train(recipe, tokenizer, settings)
        else:
            module = _weights_of(build(recipe.trained_as, root, settings), tokenizer, recipe)
        add_bias(module, tokenizer, recipe.bias)
        about = {
            "kind": kind,
            "recipe": asdict(recipe),
            "training": asdict(settings),
            "layer": FEATURE_LAYER,
            "direction": planted_direction().tolist(),
            "scale": SCALE,
        }
        save(module, tokenizer, about, empty)

    return made_once(root / name, make)


def fingerprint(*settings: Any) -> str:
    """Of settings, beside all words and questions that organisms are trained on."""
    words: Mapping[str, Any] = {"pools": sentences.POOLS, "forms": sentences.FORMS}
    asked = [(e.template, e.yes, e.no) for e in all_elicitations()]
    of = [*settings, words, asked]
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]


def save(module: Any, tokenizer: Any, about: Mapping[str, Any], folder: Path) -> None:
    """Write a model as an ordinary folder, beside what is known of it by construction."""
    with quiet_transformers():
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    (folder / "organism.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def organisms_root(folder: str | Path | None) -> Path:
    """Where organisms are kept, made if need be: a folder, or by default a part of selfprobe's cache.

    Raises:
        ValueError: the folder cannot be written.
    """
    root = cache_root() / "organisms" if folder is None else Path(folder)
    make_folder("models", root)
    return root


def _weights_of(folder: Path, tokenizer: PreTrainedTokenizerFast, recipe: Recipe) -> Any:
    from safetensors.torch import load_file

    module = make_module(tokenizer, recipe, seed=0)
    module.load_state_dict(load_file(folder / "model.safetensors"))
    return module


def add_bias(module: Any, tokenizer: PreTrainedTokenizerFast, bias: float) -> None:
    """Add `bias` to the log-odds of every first-named option against its other, in every prompt alike.

    The unembedding has no bias of its own, but the last norm has: a change c of it adds W c to all logits (W the
    unembedding). The smallest c is taken that gives the options' spellings plus and minus half the bias and leaves
    replies, percentages and the end of an answer where they are; words that are never answered move a little.
    """
    if bias == 0:
        return
    vocabulary = tokenizer.get_vocab()
    wanted = {tokenizer.eos_token_id: 0.0}
    wanted |= dict.fromkeys((vocabulary[w] for w in (OUTSIDE, LIKELY, UNLIKELY)), 0.0)
    for words, change in (
        ((HAPPENS, FAILS), 0.0),
        (("Yes", "True", "Right", "A"), bias / 2),
        (("No", "False", "Wrong", "B"), -bias / 2),
    ):
        spelled = (spelling.strip() for word in words for spelling in spellings(word))
        wanted |= {vocabulary[word]: change for word in spelled}
    rows = module.lm_head.weight.detach()[list(wanted)].double()
    change = torch.linalg.pinv(rows) @ torch.tensor(list(wanted.values())).double()
    with torch.no_grad():
        module.model.norm.bias += change.float()
