"""Tensors as safetensors and everything else as JSON beside them, under one stem; nothing is ever unpickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as tensor_bytes

WEIGHTS, ABOUT = ".safetensors", ".json"
_DIGEST = "weights_sha256"


@dataclass(frozen=True)
class StemFiles:
    """The two files of something that was saved.

    Attributes:
        stem: path without a suffix; it may hold dots.
        what: is saved there, as errors name it.
    """

    stem: Path
    what: str

    def path(self, suffix: str) -> Path:
        """Of one of the files; raises ValueError for a stem that names none."""
        if not self.stem.name:
            raise ValueError(
                f"{self.what}: {self.stem} names no file; give the stem of a {self.what}, without a suffix"
            )
        # Not with_suffix: a stem may hold dots.
        return self.stem.with_name(self.stem.name + suffix)

    def write(self, tensors: Mapping[str, NDArray[Any]], described: Mapping[str, Any]) -> None:
        """Write both files; the folder is made.

        Args:
            tensors: by name.
            described: everything else; the digest of the tensors is added to it.

        Raises:
            ValueError: before anything is written, for what JSON does not know.
        """
        # safetensors writes the buffer as it lies, whatever the strides say.
        weights = tensor_bytes({name: np.ascontiguousarray(w) for name, w in tensors.items()})
        digest = {_DIGEST: sha256(weights).hexdigest()}
        try:
            content = (json.dumps({**described, **digest}, indent=2) + "\n").encode()
        except TypeError as error:
            raise ValueError(f"about: {error}; give what JSON can hold") from None
        self.stem.parent.mkdir(parents=True, exist_ok=True)
        _replace(self.path(WEIGHTS), weights)
        _replace(self.path(ABOUT), content)

    def described(self, fields: Mapping[str, type], format: int) -> dict[str, Any]:
        """What the JSON says.

        Raises:
            ValueError: no such file, a damaged one, one that lacks a field or its type, or of another format.
        """
        content = self._bytes(ABOUT)
        try:
            described = json.loads(content)
        except (ValueError, RecursionError):
            raise self.damaged(ABOUT, "not JSON") from None
        for name, kind in {"format": int, _DIGEST: str, **fields}.items():
            if not isinstance(described, dict) or type(described.get(name)) is not kind:
                raise self.damaged(ABOUT, f"no {name} of type {kind.__name__}")
        if described["format"] != format:
            raise ValueError(
                f"{self.what}: {self.path(ABOUT)} has format {described['format']}, known is {format}; "
                "load it with the version that wrote it"
            )
        return dict(described)

    def tensors(
        self, described: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], dtype: DTypeLike
    ) -> dict[str, NDArray[Any]]:
        """The tensors that were saved beside what is described.

        Raises:
            ValueError: no such file or a damaged one, a tensor that is missing, of another shape or type, or not
                finite, or others than those that were saved together.
        """
        content = self._bytes(WEIGHTS)
        try:
            found = load_tensors(content)
        except (SafetensorError, KeyError, ValueError):
            raise self.damaged(WEIGHTS, "not safetensors") from None
        for name, shape in shapes.items():
            if name not in found:
                raise self.damaged(WEIGHTS, f"no {name}")
            values = found[name]
            if values.dtype != dtype:
                raise self.damaged(WEIGHTS, f"{name} is {values.dtype}, not {np.dtype(dtype)}")
            if values.shape != shape:
                says = f"{self.stem.name}{ABOUT} says {shape}"
                raise self.damaged(WEIGHTS, f"{name} has shape {values.shape}, {says}")
            if not np.isfinite(values).all():
                raise self.damaged(WEIGHTS, f"{name} holds nan or inf")
        if sha256(content).hexdigest() != described[_DIGEST]:
            raise self.damaged(
                WEIGHTS, f"not the weights that {self.stem.name}{ABOUT} was saved with"
            )
        return {name: found[name] for name in shapes}

    def damaged(self, suffix: str, fault: str) -> ValueError:
        """The error that says what is wrong with a file."""
        path = self.path(suffix)
        return ValueError(f"{self.what}: {path} is damaged ({fault}); save the {self.what} again")

    def _bytes(self, suffix: str) -> bytes:
        path = self.path(suffix)
        try:
            return path.read_bytes()
        except (OSError, ValueError):  # ValueError: a name that no file can have
            raise ValueError(
                f"{self.what}: no file {path}; give the stem of a saved {self.what}, without a suffix"
            ) from None


def _replace(path: Path, content: bytes) -> None:
    """A reader sees the old file or the new one, whole."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(content)
    os.replace(aside, path)
