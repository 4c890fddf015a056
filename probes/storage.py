"""Fitted probes on disk: weights as safetensors, everything else as JSON beside them; nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from probes.stem_files import ABOUT, StemFiles

FORMAT = 1
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
        direction, intercept = (np.asarray(w, np.float64) for w in self._weights())
        # A probe of a rate has no classes.
        classes: NDArray[Any] = np.asarray(getattr(self, "classes_", ()))
        learned = {name: getattr(self, name) for name in self._learned if hasattr(self, name)}
        described = {
            "format": FORMAT,
            "class": type(self).__name__,
            "parameters": _plain(self.get_params()),  # type: ignore[attr-defined]
            "classes": classes.tolist(),
            "classes_dtype": classes.dtype.str,
            "n_features": self.n_features_in_,  # type: ignore[attr-defined]
            "learned": _plain(learned),
            "versions": {name: version(name) for name in _LIBRARIES},
            "about": dict(about or {}),
        }
        tensors = {"direction": direction, "intercept": intercept}
        _files(stem).write(tensors, described)

    @classmethod
    def load(cls, stem: str | Path) -> Self:
        """A probe that `save` wrote, of this class.

        Raises ValueError, in one line: no such files, damaged ones, two that do not belong together, a probe of another
        class, shapes that do not agree, nan or inf.
        """
        files = _files(stem)
        described = _described(files)
        if described["class"] != cls.__name__:
            raise ValueError(
                f"probe: {files.path(ABOUT)} holds a {described['class']}, not a {cls.__name__}; use load_probe"
            )
        try:
            probe = cls(**described["parameters"])
        except TypeError:
            raise files.damaged(ABOUT, "parameters are not those of its class") from None
        classes = _classes(files, described["classes"], described["classes_dtype"])
        if len(classes) not in cls._class_counts:
            raise files.damaged(ABOUT, f"a {cls.__name__} cannot have {len(classes)} classes")
        if len(classes):
            probe.classes_ = classes  # type: ignore[attr-defined]
        probe.n_features_in_ = described["n_features"]  # type: ignore[attr-defined]
        for name in cls._learned:
            if name in described["learned"]:
                setattr(probe, name, described["learned"][name])
        direction, intercept = cls._shapes(len(classes), described["n_features"])
        shapes = {"direction": direction, "intercept": intercept}
        found = files.tensors(described, shapes, np.float64)
        probe._set_weights(found["direction"], found["intercept"])
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
    files = _files(stem)
    name = _described(files)["class"]
    known = {one.__name__: one for one in _subclasses(StoredProbe)}
    if name not in known:
        raise ValueError(
            f"probe: {files.path(ABOUT)} holds a {name!r}, which is no probe known here; "
            "import the module that defines it, or save the probe again"
        )
    return known[name].load(stem)


def about_probe(stem: str | Path) -> dict[str, Any]:
    """What was given as `about` when the probe was saved."""
    about: dict[str, Any] = _described(_files(stem))["about"]
    return about


_FIELDS: dict[str, type] = {
    "class": str,
    "parameters": dict,
    "classes": list,
    "classes_dtype": str,
    "n_features": int,
    "learned": dict,
    "about": dict,
}


def _files(stem: str | Path) -> StemFiles:
    return StemFiles(Path(stem), "probe")


def _described(files: StemFiles) -> dict[str, Any]:
    return files.described(_FIELDS, FORMAT)


def _classes(files: StemFiles, names: list[Any], dtype_name: str) -> NDArray[Any]:
    """The classes as they were saved: different words or numbers, of the type that they had."""
    try:
        dtype = np.dtype(dtype_name)
        if dtype.kind in "biufUO" and dtype.itemsize <= _WIDEST_CLASS:
            classes = np.array(names, dtype=dtype)
            if classes.tolist() == names and len(set(names)) == len(names):
                return classes
    except (TypeError, ValueError, OverflowError):
        pass
    raise files.damaged(ABOUT, "classes cannot be read")


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without numpy's scalars."""
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}


def _subclasses(kind: type[StoredProbe]) -> Iterator[type[StoredProbe]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)
