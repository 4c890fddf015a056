"""Examines a loaded model on a few ragged prompts: what can be read out of it, and does everything agree?

What was proved on random tokens when the model was loaded is measured here on real text, and every backend is held
against the reference over all of its sites and layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal

import torch
from jinja2.exceptions import TemplateError
from torch import Tensor

from hooks.activations import CaptureSpec
from hooks.agreement import Gap, gap, widest_gap
from hooks.architecture import first_tensor, text_config
from hooks.backends import BACKENDS, get_backend
from hooks.backends.torch import model_inputs
from hooks.batching import Batch, padded_batch, shared_batch
from hooks.completion_format import COMPLETION
from hooks.examination import BackendFinding, Branches, Examination, Finding, TokenizerFindings
from hooks.model import Model
from hooks.prompts import Prompt, Rendered, render

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_POSITIONS = ("mean_instruction", "instruction_last", "prompt_last")
_TEXTS = (
    "What is the capital of France?",
    "What is the capital of France, and when did it become the capital of the whole country?",
    "What is",
    "Zoë wrote “3 * 4 = 12” on the board.\n\n\tWas she right? Answer with one word, yes or no, and say no more.",
)
_SYSTEM = "You answer questions about geography."


def examine(model: Model, backends: Sequence[str] = tuple(BACKENDS)) -> Examination:
    """Examine a model.

    Args:
        model: from `load_model`.
        backends: names out of `hooks.backends.BACKENDS`; those that cannot run become findings, not errors.

    Raises:
        ValueError: an unknown backend, or a model that reads fewer tokens than the shortest of the prompts has.
    """
    check_backends(backends)
    prompts = _prompts(model)
    architecture = model.architecture
    spec = CaptureSpec(sites=architecture.sites, positions=_POSITIONS).resolve(model.n_layers)
    reference = get_backend("torch")
    logits = not architecture.readout_problem

    alone = [
        reference.read(model, padded_batch([prompt], model.pad_id), spec, logits=logits)
        for prompt in prompts
    ]
    sites = {site: torch.cat([states.sites[site] for states in alone]) for site in spec.sites}
    batches = {side: padded_batch(prompts, model.pad_id, side) for side in _SIDES}

    def held(batch: Batch, wanted: Mapping[str, Tensor]) -> Finding:
        found = reference.read(model, batch, spec, logits=False).sites
        return _finding(widest_gap(found, wanted, model.dtype))

    return Examination(
        model=model.name,
        model_type=str(text_config(model.module).model_type),
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        attention=str(getattr(model.module.config, "_attn_implementation", "")),
        n_layers=model.n_layers,
        d_model=model.d_model,
        max_length=model.max_length,
        window=architecture.window,
        sites=architecture.sites,
        unavailable=dict(architecture.unavailable),
        branches=_branches(model, sites),
        readout=_readout(model, prompts, [states.slot_logits for states in alone]),
        sharing=_sharing(model, prompts, sites, held),
        padding={side: held(batches[side], sites) for side in _SIDES},
        tokenizer=_tokenizer(model, prompts),
        magnitudes=_magnitudes(model, prompts),
        backends=tuple(
            _backend(name, model, batches, spec) for name in backends if name != "torch"
        ),
        n_prompts=len(prompts),
        n_tokens=sum(map(len, prompts)),
    )


def check_backends(names: Sequence[str]) -> None:
    """Raise ValueError if there is no such backend."""
    for name in names:
        if name not in BACKENDS:
            raise ValueError(
                f"backends: unknown backend {name!r}; choose from {', '.join(BACKENDS)}"
            )


def _prompts(model: Model) -> list[Rendered]:
    prompts = [Prompt.chat(str(index), text) for index, text in enumerate(_TEXTS)]
    rendered = sorted((render(model, prompt) for prompt in prompts), key=lambda p: p.token_ids)
    # Beyond the switch of LongRoPE a batch is not what its prompts are alone.
    limit = min(model.max_length, model.architecture.rope_switch or model.max_length)
    short = [prompt for prompt in rendered if len(prompt) <= limit]
    if not short:
        raise ValueError(f"model: it reads at most {limit} tokens, too few to examine")
    return short


def _finding(gap: Gap) -> Finding:
    note = (
        f"largest in {gap.where}"
        if gap.explained
        else f"{gap.where} is off by {gap.difference:.1g}"
    )
    if gap.difference == 0:
        note = "equal bit for bit"
    return Finding(gap.explained, gap.difference, note, gap.explained)


def _branches(model: Model, sites: Mapping[str, Tensor]) -> Branches:
    architecture = model.architecture
    if "attn_out" not in sites:
        reason = architecture.unavailable["attn_out"]
        return Branches("", "", "unknown", Finding(False, note=reason))
    block = architecture.blocks[0]
    paths = {id(module): path for path, module in block.module.named_modules()}
    total = {"pre + attn + mlp": sites["resid_pre"] + sites["attn_out"] + sites["mlp_out"]}
    wanted = {"pre + attn + mlp": sites["resid_post"]}
    return Branches(
        attention=paths[id(block.attention)],
        mlp=paths[id(block.mlp)],
        order="parallel" if "resid_mid" in architecture.unavailable else "sequential",
        sum=_finding(widest_gap(total, wanted, model.dtype)),
    )


def _readout(model: Model, prompts: Sequence[Rendered], logits: Sequence[Tensor | None]) -> Finding:
    if model.architecture.readout_problem:
        return Finding(False, note=model.architecture.readout_problem)
    own = []
    with torch.inference_mode():
        for prompt in prompts:
            tokens = torch.tensor([prompt.token_ids], device=model.device)
            own.append(model.module(input_ids=tokens, use_cache=False).logits[0, -1])
    ours = torch.cat([each for each in logits if each is not None])
    return _finding(gap(ours, torch.stack(own), model.dtype, "the logits at the answer slot"))


def _sharing(
    model: Model,
    prompts: Sequence[Rendered],
    sites: Mapping[str, Tensor],
    held: Callable[[Batch, Mapping[str, Tensor]], Finding],
) -> Finding:
    architecture = model.architecture
    if architecture.sharing_problem:
        return Finding(False, note=architecture.sharing_problem)
    fit = [i for i, p in enumerate(prompts) if len(p) <= (architecture.window or len(p))]
    if not fit:
        return Finding(True, note=f"not measured: no prompt fits the window {architecture.window}")
    batch = shared_batch([[prompts[i] for i in fit]], model.pad_id)
    return held(batch, {site: states[fit] for site, states in sites.items()})


def _tokenizer(model: Model, prompts: Sequence[Rendered]) -> TokenizerFindings:
    tokenizer = model.tokenizer
    bos, bos_id = tokenizer.bos_token, tokenizer.bos_token_id
    counts = {_leading(prompt.token_ids, bos_id) for prompt in prompts}
    right = counts == {0 if bos_id is None else 1}
    in_front = Finding(
        right, note="" if right else f"prompts begin with {sorted(counts)} of them", agrees=right
    )
    if model.prompt_format == COMPLETION:
        return TokenizerFindings(bos, model.prompt_format, None, in_front, "accepted")
    user = {"role": "user", "content": _TEXTS[0]}
    text = tokenizer.apply_chat_template([user], tokenize=False)
    system = "folded: dropped"
    try:
        messages = [{"role": "system", "content": _SYSTEM}, user]
        if _SYSTEM in tokenizer.apply_chat_template(messages, tokenize=False):
            system = "accepted"
    except TemplateError:
        system = "folded: refused"
    writes_bos = None if bos is None else text.startswith(bos)
    return TokenizerFindings(bos, model.prompt_format, writes_bos, in_front, system)


def _leading(token_ids: Sequence[int], token: int | None) -> int:
    """Return how many times a token stands in front."""
    return next((i for i, id in enumerate(token_ids) if id != token), len(token_ids))


def _magnitudes(model: Model, prompts: Sequence[Rendered]) -> tuple[float, ...]:
    """Return per layer the largest element of `resid_post` over all tokens, of which the first is often the largest."""
    largest = [0.0] * model.n_layers
    with ExitStack() as stack, torch.inference_mode():
        for layer, block in enumerate(model.architecture.blocks):

            def see(_: Any, __: Any, output: Any, layer: int = layer) -> None:
                peak = float(
                    first_tensor(output)
                    .abs()
                    .max()
                    .nan_to_num(nan=float("inf"), posinf=float("inf"))
                )
                largest[layer] = max(largest[layer], peak)

            stack.callback(block.module.register_forward_hook(see).remove)
        for prompt in prompts:
            model.architecture.backbone(**model_inputs(model, padded_batch([prompt], model.pad_id)))
    return tuple(largest)


def _backend(
    name: str,
    model: Model,
    batches: Mapping[Literal["left", "right"], Batch],
    spec: CaptureSpec,
) -> BackendFinding:
    """Compare a backend with the reference; whatever it raises is a finding."""
    refused: dict[str, str] = {}
    gaps: list[Gap] = []
    try:
        backend = get_backend(name)
        for site in spec.sites:
            try:
                backend.check(model, (site,))
            except ValueError as error:
                refused[site] = _one_line(error)
        sites = tuple(site for site in spec.sites if site not in refused)
        if not sites:
            return BackendFinding(name, Finding(False, note=next(iter(refused.values()))), refused)
        read = CaptureSpec(sites, spec.layers, spec.positions)
        for side, batch in batches.items():
            found = backend.read(model, batch, read, logits=False).sites
            wanted = get_backend("torch").read(model, batch, read, logits=False).sites
            widest = widest_gap(found, wanted, model.dtype)
            gaps.append(replace(widest, where=f"{widest.where}, padded on the {side}"))
    except ValueError as error:
        return BackendFinding(name, Finding(False, note=_one_line(error)), refused)
    except Exception as error:
        note = f"failed with {type(error).__name__}: {_one_line(error)}"
        return BackendFinding(name, Finding(False, note=note, agrees=False), refused)
    return BackendFinding(name, _finding(max(gaps)), refused)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
