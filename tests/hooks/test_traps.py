"""Faults seen in the field, one test each; the numbers are those of the project's list of traps."""

from __future__ import annotations

import copy
import gc
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing
from torch import Tensor

from hooks import SITES, Activations, CaptureSpec, Model, Prompt, capture, generate, render
from hooks.architecture import first_tensor
from hooks.backends.torch import TorchBackend
from hooks.batching import padded_batch, shared_batch
from hooks.completions import stop_tokens
from hooks.positions import positions_of, token_range
from hooks.prompts import Rendered

WORDS = ("capital", "sea", "wind", "poem", "Paris", "quote", "yes", "answer")
ALL_POSITIONS = (
    "mean_instruction",
    "quote_last",
    "instruction_last",
    "template_1",
    "template_2",
    "prompt_last",
)


def quoting_prompts(n: int = 7) -> list[Prompt]:
    """Prompts of different lengths, some of which share long prefixes."""
    prompts = []
    for index in range(n):
        quote = " ".join(WORDS[: 1 + index // 2])
        content = f"Here is a request: {quote}. Will you decline it? {'Yes or no? ' * (index % 3)}"
        prompts.append(Prompt.chat(f"p{index}", content, system="You are helpful.", quote=quote))
    return prompts


def hidden_states(model: Model, prompt: Prompt) -> tuple[Tensor, ...]:
    """The states of one unpadded prompt as transformers gives them."""
    with torch.inference_mode():
        ids = torch.tensor([render(model, prompt).token_ids])
        output = model.module(input_ids=ids, output_hidden_states=True)
    return tuple(states[0] for states in output.hidden_states)


def assert_same_states(found: Tensor, wanted: Tensor) -> None:
    bound = 5e-5 * max(1.0, float(wanted.abs().max()))
    assert float((found - wanted).abs().max()) <= bound


def by_id(batches: Any, site: str = "resid_post") -> dict[str, Tensor]:
    return {
        id: states
        for acts in batches
        for id, states in zip(acts.ids, acts.sites[site], strict=True)
    }


def at(states: Tensor, rendered: Rendered, position: str) -> Tensor:
    start, end = token_range(rendered, position)
    return states[start:end].mean(0)


@pytest.mark.parametrize("layout", ["left", "right", "shared"])
def test_trap_01_batch_equals_single_item(tiny_model: Model, layout: Any) -> None:
    prompts = quoting_prompts()
    rendered = [render(tiny_model, prompt) for prompt in prompts]
    if layout == "shared":
        rendered.sort(key=lambda r: r.token_ids)
        batch = shared_batch([rendered[:3], rendered[3:]], tiny_model.pad_id)
    else:
        batch = padded_batch(rendered, tiny_model.pad_id, side=layout)
    spec = CaptureSpec(sites=("resid_post",), layers=(0, 1), positions=ALL_POSITIONS)
    states = TorchBackend().read(tiny_model, batch, spec, logits=False).sites["resid_post"]
    by_prompt = {prompt.id: hidden_states(tiny_model, prompt) for prompt in prompts}
    for item, prompt in enumerate(batch.prompts):
        for layer in (0, 1):
            for index, position in enumerate(ALL_POSITIONS):
                wanted = at(by_prompt[prompt.id][layer + 1], prompt, position)
                assert_same_states(states[item, layer, index], wanted)


@pytest.mark.parametrize("share_prefixes", [True, False])
def test_trap_01_capture_equals_single_item(tiny_model: Model, share_prefixes: bool) -> None:
    prompts = quoting_prompts()
    spec = CaptureSpec(layers=(1,), positions=ALL_POSITIONS)
    found = by_id(
        capture(tiny_model, prompts, spec, share_prefixes=share_prefixes, batch_tokens=150)
    )
    for prompt in prompts:
        states = hidden_states(tiny_model, prompt)[2]
        for index, position in enumerate(ALL_POSITIONS):
            wanted = at(states, render(tiny_model, prompt), position)
            assert_same_states(found[prompt.id][0, index], wanted)


def test_trap_02_main_output_is_found_by_type(tiny_model: Model) -> None:
    tensor = torch.zeros(2, 3, 4)
    assert first_tensor(tensor) is tensor
    assert first_tensor((tensor, None)) is tensor
    prompts = quoting_prompts(3)
    spec = CaptureSpec(layers=(0,))
    plain = by_id(capture(tiny_model, prompts, spec))
    seen: list[type] = []

    def as_tuple(_: Any, __: Any, output: Any) -> Any:
        seen.append(type(output))
        return (output,)

    block = tiny_model.architecture.blocks[0].module
    with block.register_forward_hook(as_tuple):
        boxed = by_id(capture(tiny_model, prompts, spec))
    assert seen == [torch.Tensor]
    for id, states in plain.items():
        assert torch.equal(boxed[id], states)


def test_trap_02_a_wrong_shape_is_refused(tiny_model: Model) -> None:
    block = tiny_model.architecture.blocks[0].module
    with (
        block.register_forward_hook(lambda _, __, output: first_tensor(output)[0]),
        pytest.raises(RuntimeError, match="resid_post of layer 0 has shape"),
    ):
        list(capture(tiny_model, quoting_prompts(3), CaptureSpec(layers=(0,))))


def test_trap_03_last_layer_is_not_the_final_norm(tiny_model: Model) -> None:
    prompts = quoting_prompts(4)
    spec = CaptureSpec(
        sites=("embed", "resid_pre", "resid_post", "final_norm"), positions=("prompt_last",)
    )
    for acts in capture(tiny_model, prompts, spec):
        for row, id in enumerate(acts.ids):
            prompt = next(prompt for prompt in prompts if prompt.id == id)
            states = [layer[-1] for layer in hidden_states(tiny_model, prompt)]
            assert_same_states(acts.sites["embed"][row, 0, 0], states[0])
            assert_same_states(acts.sites["final_norm"][row, 0, 0], states[-1])
            for layer in range(2):
                assert_same_states(acts.sites["resid_post"][row, layer, 0], states[layer + 1])
                assert_same_states(acts.sites["resid_pre"][row, layer + 1, 0], states[layer + 1])
            last = acts.sites["resid_post"][row, 2, 0]
            assert float((last - states[-1]).abs().max()) > 0.1
            norm = tiny_model.architecture.final_norm
            assert norm is not None
            with torch.inference_mode():
                assert_same_states(norm(last), states[-1])


@pytest.mark.parametrize("system", [None, "You are helpful."])
def test_trap_04_exactly_one_bos(tiny_model: Model, system: str | None) -> None:
    bos = tiny_model.tokenizer.bos_token_id
    for prompt in (
        Prompt.chat("chat", "What is the capital?", system=system),
        Prompt(id="text", text="What is the capital?"),
    ):
        ids = render(tiny_model, prompt).token_ids
        assert ids[0] == bos
        assert ids.count(bos) == 1


@pytest.mark.parametrize("template_bos", ["", "{{ bos_token }}"])
def test_trap_04_one_bos_from_a_tokenizer_that_adds_its_own(
    tokenizer_of: Callable[..., Any], template_bos: str
) -> None:
    """Rendering to text and tokenizing with defaults would give two; without special tokens, none."""
    template = template_bos + "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
    tokenizer = tokenizer_of(template, bos="<s>", eos="</s>")
    bos = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", bos)]
    )
    assert tokenizer("<s>yes")["input_ids"].count(bos) == 2
    for prompt in (Prompt.chat("chat", "yes"), Prompt(id="text", text="yes")):
        rendered = render(tokenizer, prompt)
        assert rendered.token_ids[0] == bos
        assert rendered.token_ids.count(bos) == 1
        start, end = rendered.spans["instruction"]
        assert tokenizer.decode(rendered.token_ids[start:end]) == "yes"


def test_trap_04_no_bos_where_the_tokenizer_defines_none(tokenizer_of: Callable[..., Any]) -> None:
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    tokenizer = tokenizer_of(template, bos=None, eos="</s>")
    rendered = render(tokenizer, Prompt.chat("a", "yes"))
    assert list(rendered.token_ids) == tokenizer("yes", add_special_tokens=False)["input_ids"]
    assert rendered.spans == {"instruction": (0, len(rendered))}


def test_trap_05_system_message_reaches_the_model(tiny_model: Model) -> None:
    prompt = Prompt.chat("a", "What is the capital?", system="Answer in one word.")
    rendered = render(tiny_model, prompt)
    text = tiny_model.tokenizer.decode(rendered.token_ids)
    assert "Answer in one word." in text
    assert "What is the capital?" in text
    assert rendered.system_folded == (tiny_model.name == "tiny-gpt_neox")
    start, end = rendered.spans["instruction"]
    instruction = tiny_model.tokenizer.decode(rendered.token_ids[start:end])
    assert instruction.strip() == "What is the capital?"


def test_trap_05_a_template_that_drops_the_system_message(tokenizer_of: Callable[..., Any]) -> None:
    template = (
        "{% for m in messages %}{% if m['role'] != 'system' %}[{{ m['content'] }}]"
        "{% endif %}{% endfor %}"
    )
    tokenizer = tokenizer_of(template, bos="<s>", eos="</s>")
    rendered = render(tokenizer, Prompt.chat("a", "yes", system="Answer."))
    assert rendered.system_folded
    assert tokenizer.decode(rendered.token_ids) == "<s>[Answer.\n\nyes]"


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.tuples(*[st.integers(1, 6)] * 3), min_size=1, max_size=6),
    side=st.sampled_from(["left", "right"]),
    seed=st.integers(0, 10_000),
)
def test_trap_06_positions_are_resolved_before_padding(
    lengths: list[tuple[int, int, int]], side: Any, seed: int
) -> None:
    generator = random.Random(seed)
    prompts = []
    for index, (before, instruction, template) in enumerate(lengths):
        total = before + instruction + template
        ids = tuple(generator.randrange(1, 4) for _ in range(total))
        quote_end = before + generator.randint(1, instruction)
        spans = {"instruction": (before, before + instruction), "quote": (before, quote_end)}
        prompts.append(Rendered(f"p{index}", ids, spans))
    in_order = sorted(prompts, key=lambda prompt: prompt.token_ids)
    for batch in (padded_batch(prompts, 0, side=side), shared_batch([in_order], 0)):
        flat_ids = batch.token_ids.flatten().tolist()
        flat_depths = batch.position_ids.flatten().tolist()
        for index, prompt in enumerate(batch.prompts):
            for position in positions_of(prompt):
                slots = batch.flat_slots(index, position)
                start, end = token_range(prompt, position)
                assert [flat_depths[slot] for slot in slots] == list(range(start, end))
                assert [flat_ids[slot] for slot in slots] == list(prompt.token_ids[start:end])


def test_trap_07_golden_table() -> None:
    prompt = Rendered("a", (50, 51, 52, 53, 54), {"instruction": (1, 3), "quote": (1, 2)})
    table = {
        "mean_instruction": (1, 3),
        "quote_last": (1, 2),
        "instruction_last": (2, 3),
        "template_1": (3, 4),
        "template_2": (4, 5),
        "prompt_last": (4, 5),
    }
    assert {position: token_range(prompt, position) for position in table} == table
    assert positions_of(prompt) == tuple(table)


def test_trap_07_prompt_last_is_what_the_first_generated_token_is_read_from(
    tiny_model: Model,
) -> None:
    prompt = Prompt(id="a", text="The capital of France is")
    spec = CaptureSpec(sites=("final_norm",), positions=("prompt_last",))
    (acts,) = capture(tiny_model, [prompt], spec)
    readout = tiny_model.architecture.readout
    assert readout is not None
    with torch.inference_mode():
        first = int(readout(acts.sites["final_norm"][0, 0, 0]).argmax())
    (completion,) = generate(tiny_model, [prompt], max_new_tokens=1)
    if first in stop_tokens(tiny_model):
        assert completion.n_tokens == 0
    else:
        assert completion.text == tiny_model.tokenizer.decode([first], skip_special_tokens=True)


def test_trap_08_captured_states_own_no_more_than_their_elements(tiny_model: Model) -> None:
    available = tiny_model.architecture.sites
    spec = CaptureSpec(sites=available, positions=("instruction_last", "prompt_last"))
    for acts in capture(tiny_model, quoting_prompts(), spec):
        for states in acts.sites.values():
            assert states.untyped_storage().nbytes() == states.numel() * 4


def test_trap_08_live_memory_is_flat_over_batches(tiny_model: Model) -> None:
    prompts = [Prompt(id=str(i), text=f"What is {i}?") for i in range(54)]
    live = []
    spec = CaptureSpec(sites=tiny_model.architecture.sites)
    batches = capture(tiny_model, prompts, spec, share_prefixes=False, batch_tokens=1)
    for index, _ in enumerate(batches):
        if index in (4, 53):
            gc.collect()
            tensors = (o for o in gc.get_objects() if type(o) is Tensor)
            live.append(sum(tensor.untyped_storage().nbytes() for tensor in tensors))
    assert len(live) == 2
    assert max(live) <= min(live) + 2048


def hook_counts(model: Model) -> list[int]:
    return [
        len(module._forward_hooks) + len(module._forward_pre_hooks)
        for module in model.module.modules()
    ]


def test_trap_11_no_hook_leaks_and_none_of_the_users_is_removed(tiny_model: Model) -> None:
    calls: list[int] = []
    block = tiny_model.architecture.blocks[1].module
    before = hook_counts(tiny_model)
    with block.register_forward_hook(lambda *_: calls.append(1)):
        with_users = hook_counts(tiny_model)
        list(capture(tiny_model, quoting_prompts(2), CaptureSpec(layers=(1,))))
        generate(tiny_model, quoting_prompts(2), max_new_tokens=2)
        assert hook_counts(tiny_model) == with_users
        assert len(calls) >= 3
    assert hook_counts(tiny_model) == before


def test_trap_11_no_hook_leaks_after_an_exception(tiny_model: Model) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("from a hook of the user's")

    block = tiny_model.architecture.blocks[1].module
    with block.register_forward_hook(fail):
        before = hook_counts(tiny_model)
        with pytest.raises(KeyError):
            list(
                capture(
                    tiny_model,
                    quoting_prompts(2),
                    CaptureSpec(
                        sites=("resid_mid",)
                        if "resid_mid" in tiny_model.architecture.sites
                        else ("attn_out",)
                    ),
                )
            )
        with pytest.raises(KeyError):
            generate(tiny_model, quoting_prompts(2), max_new_tokens=2)
        assert hook_counts(tiny_model) == before
    assert tiny_model.current is None


@pytest.mark.parametrize("share_prefixes", [True, False])
def test_trap_12_states_follow_their_ids_through_shuffling(
    tiny_model: Model, share_prefixes: bool
) -> None:
    prompts = quoting_prompts(12)
    spec = CaptureSpec(layers=(2,))
    shuffled = random.Random(0).sample(prompts, len(prompts))
    first = by_id(capture(tiny_model, prompts, spec, share_prefixes=share_prefixes))
    second = by_id(
        capture(tiny_model, shuffled, spec, share_prefixes=share_prefixes, batch_tokens=90)
    )
    assert first.keys() == second.keys() == {prompt.id for prompt in prompts}
    for id, states in first.items():
        assert_same_states(second[id], states)


def test_trap_16_centered_weights_are_another_model(tiny_model_of: Callable[..., Model]) -> None:
    """Centering what is written to the stream leaves GPT-2's logits, and changes its states."""
    raw = tiny_model_of("gpt2")
    module = copy.deepcopy(raw.module)
    model = Model.from_module(module, raw.tokenizer, name=raw.name, weights_id=raw.weights_id)
    assert model.fingerprint == raw.fingerprint
    writers = [module.transformer.wpe.weight]
    for block in module.transformer.h:
        for part in (block.attn.c_proj, block.mlp.c_proj):
            writers += [part.weight, part.bias]
    with torch.no_grad():
        for weight in writers:
            weight -= weight.mean(-1, keepdim=True)
    prompts = quoting_prompts(3)
    spec = CaptureSpec(sites=("resid_post", "final_norm"))
    (wanted,), (found,) = capture(raw, prompts, spec), capture(model, prompts, spec)
    assert_same_states(found.sites["final_norm"], wanted.sites["final_norm"])
    assert float((found.sites["resid_post"] - wanted.sites["resid_post"]).abs().max()) > 0.01
    differing = {k for k, v in model.fingerprint.items() if raw.fingerprint[k] != v}
    assert differing == {"weights"}


def test_trap_17_branches_add_up_to_the_block(tiny_model: Model) -> None:
    sites = tuple(site for site in SITES if site in tiny_model.architecture.sites)
    spec = CaptureSpec(sites=sites, positions=("mean_instruction", "prompt_last"))
    for acts in capture(tiny_model, quoting_prompts(), spec):
        total = acts.sites["resid_pre"] + acts.sites["attn_out"]
        if "resid_mid" in acts.sites:
            torch.testing.assert_close(acts.sites["resid_mid"], total, rtol=0, atol=1e-5)
        total = total + acts.sites["mlp_out"]
        torch.testing.assert_close(acts.sites["resid_post"], total, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("temperature", [None, 1.0])
def test_trap_18_labels_do_not_change_with_the_batch_size(
    tiny_model: Model, temperature: float | None
) -> None:
    prompts = quoting_prompts(33)
    single, eight, all_at_once = (
        generate(
            tiny_model, prompts, max_new_tokens=6, temperature=temperature, batch_size=batch_size
        )
        for batch_size in (1, 8, 32)
    )
    assert single == eight == all_at_once
    assert [completion.id for completion in single] == [prompt.id for prompt in prompts]


def test_trap_23_optional_libraries_may_be_missing(tmp_path: Any) -> None:
    weights = tmp_path / "some.gguf"
    weights.write_bytes(b"GGUF")
    script = f"""
        import sys
        for name in ("gguf", "transformer_lens", "nnsight", "matplotlib"):
            sys.modules[name] = None
        import activations_cache, hooks, probes
        try:
            hooks.load_model({str(weights)!r})
        except ValueError as error:
            print(error)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        env={"SELFPROBE_CACHE": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )
    assert result.stdout == "some.gguf: reading GGUF files needs a library: pip install gguf\n"


def test_activations_refuse_rows_without_ids() -> None:
    with pytest.raises(ValueError, match="resid_post: shape"):
        Activations(("a", "b"), {"resid_post": torch.zeros(1, 1, 1, 4)}, (0,), ("prompt_last",))
