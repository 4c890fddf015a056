"""`selfprobe capture`: the states of a user's own prompts, in a cache."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from experiments.cli.app import JsonFlag, app


@app.command(
    epilog="Examples:\n\n"
    "`selfprobe capture --prompts prompts.jsonl --out cache`\n\n"
    "`selfprobe capture --model ORGANIZATION/NAME --prompts prompts.csv --out cache --layers 10-20 "
    "--positions prompt_last --dtype bfloat16`\n\n"
    "`selfprobe capture --prompts prompts.jsonl --out cache --sites resid_post,mlp_out --extend`"
)
def capture(
    prompts: Annotated[
        Path,
        typer.Option(
            help="JSON Lines or CSV: `id` and one of `messages` (a chat), `prompt` (one user message) or `text` "
            "(as it is, without a chat template); optionally `group` and `quote`."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The cache's folder; one that was begun is picked up.")],
    model: Annotated[
        str,
        typer.Option(help="A name from `selfprobe models`, a hub id, a folder or a .gguf file."),
    ] = "smollm2-135m",
    sites: Annotated[
        str,
        typer.Option(
            help="embed, resid_pre, resid_mid, resid_post, attn_out, mlp_out, final_norm, separated by commas."
        ),
    ] = "resid_post",
    layers: Annotated[str, typer.Option(help="all, or blocks such as 0,4,10-20.")] = "all",
    positions: Annotated[
        str,
        typer.Option(
            help="instruction_last, mean_instruction, template_1 ..., prompt_last, quote_last, separated by commas."
        ),
    ] = "instruction_last,prompt_last",
    backend: Annotated[
        Literal["torch", "transformer_lens", "nnsight"], typer.Option(help="What runs the model.")
    ] = "torch",
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"], typer.Option(help="What the model computes in.")
    ] = "float32",
    storage: Annotated[
        Literal["bfloat16", "float32", "float16"], typer.Option(help="What the cache stores.")
    ] = "bfloat16",
    attention: Annotated[
        Literal["sdpa", "eager"] | None,
        typer.Option(help="The attention implementation. Default: sdpa where the model has it."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1 ..., or auto for all GPUs.")
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Most tokens a batch. Default: 2,048; on a GPU 16,384.")
    ] = None,
    share_prefixes: Annotated[
        bool, typer.Option(help="Compute a prefix that prompts share once, where that is exact.")
    ] = True,
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate",
            help="Cut the end of instructions that are too long; recorded in the cache.",
        ),
    ] = False,
    extend: Annotated[
        bool,
        typer.Option(
            "--extend", help="Add sites, layers or positions to a cache of the same prompts."
        ),
    ] = False,
    compression: Annotated[
        Literal["zstd", "lz4"] | None,
        typer.Option(help="Of a new cache; needs the package hdf5plugin."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Read the states of your own prompts into a cache.

    A capture that was stopped is picked up by the same command and ends with the same values. The cache holds a copy of
    the ids and groups in `prompts.csv`, beside which labels can be put.
    """
    from activations_cache import NonFiniteError
    from experiments.captures import capture_into, write_groups
    from experiments.progress import reporter_for_stderr
    from experiments.prompt_files import read_prompts
    from hooks import CaptureSpec, load_model
    from hooks.completion_format import COMPLETION, format_note

    spec = CaptureSpec(sites=_names(sites), layers=_layers(layers), positions=_names(positions))
    rows = read_prompts(prompts)
    loaded = load_model(model, dtype=dtype, device=device, attn_implementation=attention)
    if loaded.prompt_format == COMPLETION and any(row.prompt.messages for row in rows):
        print(f"note: {format_note(model)}", file=sys.stderr)
    try:
        cache = capture_into(
            out,
            loaded,
            [row.prompt for row in rows],
            spec,
            reporter=reporter_for_stderr(),
            dtype=storage,
            extend=extend,
            compression=compression,
            batch_tokens=batch_tokens,
            share_prefixes=share_prefixes,
            backend=backend,
            truncate=truncate,
        )
    except NonFiniteError as error:  # not the command's fault, but the model's
        raise RuntimeError(str(error)) from error
    write_groups(out, rows)
    _report(cache, as_json)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _layers(text: str) -> tuple[int, ...] | Literal["all"]:
    from experiments.config import parse_layers

    try:
        layers = parse_layers(text)
    except ValueError as error:
        raise ValueError(f"layers: {error}") from None
    return "all" if isinstance(layers, str) else tuple(layers)


def _report(cache: Any, as_json: bool) -> None:
    truncated = cache.fingerprint["truncated"]
    found = {
        "cache": str(cache.path),
        "items": len(cache),
        "sites": list(cache.spec.sites),
        "layers": list(cache.spec.layers),
        "positions": list(cache.spec.positions),
        "truncated": truncated,
    }
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print(f"{len(cache)} prompts x {len(cache.cells())} cells in {cache.path}")
    if truncated:
        more = ", ..." if len(truncated) > 5 else ""
        print(f"truncated, {len(truncated)}: {', '.join(truncated[:5])}{more}")
