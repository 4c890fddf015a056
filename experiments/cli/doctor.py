"""`selfprobe doctor`: which sites a model has, and whether every way of reading them agrees."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from experiments.cli.app import JsonFlag, app

if TYPE_CHECKING:
    from hooks.examination import Examination, Finding

_ANY = 2**31 - 1
_COMPLETION = "chats are read in the completion format, as turns of User: and Assistant:"


@app.command(
    epilog="Examples:\n\n"
    "`selfprobe doctor smollm2-135m`\n\n"
    "`selfprobe doctor ORGANIZATION/NAME --dtype bfloat16 --backends torch --json`"
)
def doctor(
    model: Annotated[
        str,
        typer.Argument(help="A name from `selfprobe models`, a hub id, a folder or a .gguf file."),
    ],
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"], typer.Option(help="What the model computes in.")
    ] = "float32",
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, cuda:1 ..., or auto. Default: a GPU where there is one."),
    ] = None,
    attention: Annotated[
        Literal["sdpa", "eager"] | None,
        typer.Option(help="The attention implementation. Default: sdpa where the family has it."),
    ] = None,
    backends: Annotated[
        str, typer.Option(help="Held against the reference `torch`, separated by commas.")
    ] = "torch,transformer_lens,nnsight",
    as_json: JsonFlag = False,
) -> None:
    """Examine a model: its sites, its readout, padding, shared prefixes, BOS, magnitudes, and every backend.

    Exit status 0 if everything agrees, 1 if something contradicts what was proved at loading.
    """
    from hooks import load_model
    from hooks.doctor import check_backends, examine

    names = tuple(name.strip() for name in backends.split(",") if name.strip())
    check_backends(names)
    loaded = load_model(model, dtype=dtype, device=device, attn_implementation=attention)
    found = examine(loaded, names)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
    else:
        _print(found)
    if found.problems:
        raise RuntimeError(f"{model}: {'; '.join(found.problems)}")


def _print(found: Examination) -> None:
    """Print a table on a terminal, aligned lines elsewhere."""
    rows = [*_about(found), *_measured(found), *_tokens(found), *_backends(found)]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(f"{found.model} ({found.model_type})"), show_header=False)
        for row in rows:
            table.add_row(*map(Text, row))  # Not markup: a BOS may be spelled [BOS].
        Console().print(table)
        return
    print(f"{found.model} ({found.model_type})")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


def _about(found: Examination) -> list[tuple[str, str]]:
    window = "none"
    if found.window is not None:
        window = f"{found.window} tokens; longer prompts share no prefixes"
    branches = found.branches
    parts = f"{branches.attention} and {branches.mlp}, {branches.order}"
    peak = max(range(found.n_layers), key=lambda layer: found.magnitudes[layer])
    float16 = "float16 holds it"
    if found.overflowing:
        float16 = f"float16 overflows at layers {_ranges(found.overflowing)}"
    unavailable: dict[str, list[str]] = {}
    for site, reason in found.unavailable.items():
        unavailable.setdefault(reason, []).append(site)
    return [
        ("computed in", f"{found.dtype} on {found.device}, attention {found.attention}"),
        ("layers, width", f"{found.n_layers} x {found.d_model}"),
        (
            "reads at most",
            f"{found.max_length:,} tokens" if found.max_length < _ANY else "any length",
        ),
        ("window", window),
        ("attention, MLP", parts if branches.attention else "not found"),
        ("sites", ", ".join(found.sites)),
        *((f"no {', '.join(sites)}", reason) for reason, sites in unavailable.items()),
        (
            "largest residual",
            f"{found.magnitudes[peak]:,.0f} at layer {peak}; {float16}",
        ),
    ]


def _measured(found: Examination) -> list[tuple[str, str]]:
    sums = [("pre + attn + mlp == post", _finding(found.branches.sum))]
    return [
        ("measured on", f"{found.n_prompts} ragged prompts, {found.n_tokens} tokens"),
        *(sums if found.branches.attention else []),
        ("readout == logits", _finding(found.readout)),
        ("shared prefixes", _finding(found.sharing)),
        *((f"padding on the {side}", _finding(item)) for side, item in found.padding.items()),
    ]


def _tokens(found: Examination) -> list[tuple[str, str]]:
    tokenizer = found.tokenizer
    bos = "the tokenizer defines none"
    if tokenizer.bos is not None:
        writer = "the template writes it" if tokenizer.template_writes_bos else "selfprobe adds it"
        bos = f"{tokenizer.bos}, {writer}"
    if not tokenizer.bos_in_front.agrees:
        bos = f"DISAGREES: {tokenizer.bos_in_front.note}"
    return [
        ("BOS", bos),
        ("chat template", "yes" if tokenizer.has_template else f"none: {_COMPLETION}"),
        ("system role", tokenizer.system_role),
    ]


def _backends(found: Examination) -> list[tuple[str, str]]:
    rows = [("backend torch", "the reference")]
    for item in found.backends:
        rows.append((f"backend {item.backend}", _finding(item.states)))
        if item.states.difference is not None:
            rows += [(f"  no {site}", reason) for site, reason in item.refused.items()]
    return rows


def _finding(finding: Finding) -> str:
    if not finding.agrees:
        return f"DISAGREES: {finding.note}"
    if not finding.holds:
        return f"no: {finding.note}"
    if finding.difference is None:
        return f"yes; {finding.note}"
    size = f"{finding.difference:.1e}, " if finding.difference else ""
    return f"yes; {size}{finding.note}"


def _ranges(layers: tuple[int, ...]) -> str:
    """Write layers as 3, 5-9."""
    groups: list[list[int]] = []
    for layer in layers:
        if groups and layer == groups[-1][-1] + 1:
            groups[-1].append(layer)
        else:
            groups.append([layer])
    return ", ".join(
        str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups
    )
