"""Fitted probes on disk: weights as safetensors, everything else as JSON beside them; nothing is ever unpickled."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as tensor_bytes
from sklearn.utils.validation import check_is_fitted

FORMAT = 1
WEIGHTS, ABOUT = ".safetensors", ".json"
_LIBRARIES = ("numpy", "scikit-learn")
_WIDEST_CLASS = 2**16
"""Bytes of a class's name: a damaged file shall not claim the memory."""


class StoredProbe:
    """`save` and `load` for an estimator whose learned state is a direction and an intercept."""

    def save(self, stem: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write `stem`.safetensors (`direction` and `intercept` on raw features, float64) and `stem`.json.

        Args:
            stem: path without a suffix; its folder is made.
            about: further facts, JSON-able, to be kept in the JSON (`about_probe` reads them).

        Raises ValueError, before anything is written, for facts that JSON does not know.
        """
        check_is_fitted(self)
        stem = Path(stem)
        # safetensors writes the buffer as it lies, whatever the strides say.
        direction, intercept = (np.ascontiguousarray(w, np.float64) for w in self._weights())
        # A probe of a rate has no classes.
        classes: NDArray[Any] = np.asarray(getattr(self, "classes_", ()))
        learned = {name: getattr(self, name) for name in self._learned if hasattr(self, name)}
        weights = tensor_bytes({"direction": direction, "intercept": intercept})
        described = {
            "format": FORMAT,
            "class": type(self).__name__,
            "parameters": _plain(self.get_params()),  # type: ignore[attr-defined]
            "classes": classes.tolist(),
            "classes_dtype": classes.dtype.str,
            "n_features": self.n_features_in_,  # type: ignore[attr-defined]
            "learned": _plain(learned),
            "weights_sha256": sha256(weights).hexdigest(),
            "versions": {name: version(name) for name in _LIBRARIES},
            "about": dict(about or {}),
        }
        try:
            content = (json.dumps(described, indent=2) + "\n").encode()
        except TypeError as error:
            raise ValueError(f"about: {error}; give what JSON can hold") from None
        stem.parent.mkdir(parents=True, exist_ok=True)
        _replace(_file(stem, WEIGHTS), weights)
        _replace(_file(stem, ABOUT), content)

    @classmethod
    def load(cls, stem: str | Path) -> Self:
        """A probe that `save` wrote, of this class.

        Raises ValueError, in one line: no such files, damaged ones, two that do not belong together, a probe of another
        class, shapes that do not agree, nan or inf.
        """
        stem = Path(stem)
        described = _described(stem)
        if described["class"] != cls.__name__:
            raise ValueError(
                f"probe: {_file(stem, ABOUT)} holds a {described['class']}, not a {cls.__name__}; use load_probe"
            )
        try:
            probe = cls(**described["parameters"])
        except TypeError:
            raise _damaged(stem, ABOUT, "parameters are not those of its class") from None
        classes = _classes(stem, described["classes"], described["classes_dtype"])
        if len(classes) not in cls._class_counts:
            raise _damaged(stem, ABOUT, f"a {cls.__name__} cannot have {len(classes)} classes")
        if len(classes):
            probe.classes_ = classes  # type: ignore[attr-defined]
        probe.n_features_in_ = described["n_features"]  # type: ignore[attr-defined]
        for name in cls._learned:
            if name in described["learned"]:
                setattr(probe, name, described["learned"][name])
        shapes = cls._shapes(len(classes), described["n_features"])
        probe._set_weights(*_weights(stem, described["weights_sha256"], *shapes))
        return probe

    _learned: tuple[str, ...] = ()
    """Names of what else was learned, JSON-able."""
    _class_counts = range(1)
    """How many classes it may have; none by default."""

    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        raise NotImplementedError

    def _set_weights(self, direction: NDArray[np.float64], intercept: NDArray[np.float64]) -> None:
        raise NotImplementedError

    @staticmethod
    def _shapes(n_classes: int, n_features: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of direction and intercept."""
        raise NotImplementedError


def load_probe(stem: str | Path) -> StoredProbe:
    """A probe that was saved as `stem`, of whichever class it is; raises ValueError as `StoredProbe.load` does."""
    name = _described(Path(stem))["class"]
    known = {one.__name__: one for one in _subclasses(StoredProbe)}
    if name not in known:
        raise ValueError(
            f"probe: {_file(Path(stem), ABOUT)} holds a {name!r}, which is no probe known here; "
            "import the module that defines it, or save the probe again"
        )
    return known[name].load(stem)


def about_probe(stem: str | Path) -> dict[str, Any]:
    """What was given as `about` when the probe was saved."""
    about: dict[str, Any] = _described(Path(stem))["about"]
    return about


_FIELDS: dict[str, type] = {
    "format": int,
    "class": str,
    "parameters": dict,
    "classes": list,
    "classes_dtype": str,
    "n_features": int,
    "learned": dict,
    "weights_sha256": str,
    "about": dict,
}


def _described(stem: Path) -> dict[str, Any]:
    content = _bytes(stem, ABOUT)
    try:
        described = json.loads(content)
    except (ValueError, RecursionError):
        raise _damaged(stem, ABOUT, "not JSON") from None
    for name, kind in _FIELDS.items():
        if not isinstance(described, dict) or type(described.get(name)) is not kind:
            raise _damaged(stem, ABOUT, f"no {name} of type {kind.__name__}")
    if described["format"] != FORMAT:
        raise ValueError(
            f"probe: {_file(stem, ABOUT)} has format {described['format']}, known is {FORMAT}; "
            "load it with the version that wrote it"
        )
    return dict(described)


def _classes(stem: Path, names: list[Any], dtype_name: str) -> NDArray[Any]:
    """The classes as they were saved: different words or numbers, of the type that they had."""
    try:
        dtype = np.dtype(dtype_name)
        if dtype.kind in "biufUO" and dtype.itemsize <= _WIDEST_CLASS:
            classes = np.array(names, dtype=dtype)
            if classes.tolist() == names and len(set(names)) == len(names):
                return classes
    except (TypeError, ValueError, OverflowError):
        pass
    raise _damaged(stem, ABOUT, "classes cannot be read")


def _weights(
    stem: Path, digest: str, direction_shape: tuple[int, ...], intercept_shape: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    content = _bytes(stem, WEIGHTS)
    try:
        tensors = load_tensors(content)
    except (SafetensorError, KeyError, ValueError):
        raise _damaged(stem, WEIGHTS, "not safetensors") from None
    found = []
    for name, shape in (("direction", direction_shape), ("intercept", intercept_shape)):
        if name not in tensors:
            raise _damaged(stem, WEIGHTS, f"no {name}")
        values = tensors[name]
        if values.dtype != np.float64:
            raise _damaged(stem, WEIGHTS, f"{name} is {values.dtype}, not float64")
        if values.shape != shape:
            raise _damaged(
                stem, WEIGHTS, f"{name} has shape {values.shape}, {stem.name}{ABOUT} says {shape}"
            )
        if not np.isfinite(values).all():
            raise _damaged(stem, WEIGHTS, f"{name} holds nan or inf")
        found.append(values)
    if sha256(content).hexdigest() != digest:
        raise _damaged(stem, WEIGHTS, f"not the weights that {stem.name}{ABOUT} was saved with")
    return found[0], found[1]


def _bytes(stem: Path, suffix: str) -> bytes:
    path = _file(stem, suffix)
    try:
        return path.read_bytes()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        raise ValueError(
            f"probe: no file {path}; give the stem of a saved probe, without a suffix"
        ) from None


def _damaged(stem: Path, suffix: str, fault: str) -> ValueError:
    return ValueError(f"probe: {_file(stem, suffix)} is damaged ({fault}); save the probe again")


def _file(stem: Path, suffix: str) -> Path:
    if not stem.name:
        raise ValueError(f"probe: {stem} names no file; give the stem of a probe, without a suffix")
    # Not with_suffix: a stem may hold dots.
    return stem.with_name(stem.name + suffix)


def _replace(path: Path, content: bytes) -> None:
    """A reader sees the old file or the new one, whole."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(content)
    os.replace(aside, path)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without numpy's scalars."""
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}


def _subclasses(kind: type[StoredProbe]) -> Iterator[type[StoredProbe]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)
