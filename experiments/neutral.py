"""Prompts and prose that have nothing to do with any task: whether a model that was changed is still itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
import yaml

from hooks import Model

_DATA = Path(__file__).with_name("data") / "neutral.yaml"


@cache
def neutral() -> dict[str, list[str]]:
    """`prompts` and `texts`."""
    data: dict[str, list[str]] = yaml.safe_load(_DATA.read_text(encoding="utf-8"))
    return data


def perplexity(model: Model, texts: Sequence[str]) -> float:
    """Of the texts together, each read by itself."""
    losses, n_tokens = 0.0, 0
    for text in texts:
        ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
        bos = model.tokenizer.bos_token_id
        tokens = torch.tensor([ids if bos is None else [bos, *ids]], device=model.device)
        with torch.inference_mode():
            logits = model.module(input_ids=tokens, use_cache=False).logits[0, :-1].double()
        losses += float(torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="sum"))
        n_tokens += tokens.shape[1] - 1
    return float(np.exp(losses / n_tokens))
