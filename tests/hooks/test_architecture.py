from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as tf
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from hooks import CaptureSpec, Model, Prompt, capture, logit_lens, render
from hooks.architecture import find_backbone, find_blocks, find_final_norm, first_tensor
from hooks.proof import _adds_up, prove_architecture
from tests.hooks.parity import model_of, module_of

SIZES: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
GATED: dict[str, Any] = {**SIZES, "intermediate_size": 48, "num_key_value_heads": 2}


@pytest.mark.parametrize("name", ["cohere", "gemma2", "granite", "llama4", "opt", "gptj"])
def test_logit_lens_at_the_last_layer_gives_the_models_own_logits(name: str) -> None:
    # Scaled, capped and biased unembeddings.
    model = model_of(name, "eager")
    prompt = Prompt(id="a", text="What is yes?")
    (acts,) = capture(model, [prompt], CaptureSpec(layers=(-1,)))
    with torch.inference_mode():
        tokens = torch.tensor([render(model, prompt).token_ids])
        wanted = model.module(tokens).logits[0, -1]
    logits = logit_lens(model, acts.sites["resid_post"][0, 0, 0])
    torch.testing.assert_close(logits, wanted, rtol=1e-4, atol=1e-4)


def test_names_say_nothing_where_the_order_of_running_does() -> None:
    # Jamba's mixer is called "mamba", which no list of names holds, and comes after "feed_forward".
    block = model_of("jamba", "eager").architecture.blocks[0]
    assert block.attention is block.module.mamba
    assert block.mlp is block.module.feed_forward


def test_a_module_that_all_blocks_share_is_no_branch() -> None:
    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 2}
    architecture = prove_architecture(module_of("OpenAIGPTConfig", sizes))
    assert set(architecture.unavailable) == {"resid_mid", "attn_out", "mlp_out", "final_norm"}
    reason = architecture.unavailable["attn_out"]
    assert reason.startswith("in block 0 no two modules add up: pre + attention + mlp == post")
    assert "(tried: attn.c_proj, attn.resid_dropout, attn, ln_1, mlp.c_proj" in reason


def test_a_window_of_slots_switches_sharing_off_however_long_it_is() -> None:
    # GPT-Neo counts slots of a row, not positions: rows of 512 slots would lose what lies behind.
    sizes: dict[str, Any] = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 100}
    sizes["attention_types"] = [[["global", "local"], 1]]
    architecture = prove_architecture(module_of("GPTNeoConfig", sizes))
    assert architecture.window == 100
    assert architecture.sharing_problem == "its windows count slots of a row, not positions"


def test_a_missing_site_is_refused_with_its_reason(tiny_model_of: Callable[..., Model]) -> None:
    model = tiny_model_of("gpt_neox")
    with pytest.raises(ValueError, match="'resid_mid' does not exist in this model: its attention"):
        capture(model, [Prompt(id="a", text="yes")], CaptureSpec(sites=("resid_mid",)))


def test_a_window_shorter_than_a_prompt_switches_sharing_off(
    tokenizer_of: Callable[..., Any], module_of: Callable[..., Any]
) -> None:
    tokenizer = tokenizer_of(None, bos="<s>", eos="</s>")
    config = tf.MistralConfig(**GATED, sliding_window=4, vocab_size=len(tokenizer))
    model = Model.from_module(module_of(config), tokenizer, name="window")
    assert model.architecture.window == 4
    text = "The capital of France is Paris. Will you answer yes or no?"
    prompts = [Prompt(id=str(n), text=text[:n]) for n in (3, 20, 40, len(text))]
    for acts in capture(model, prompts, CaptureSpec(layers=(0,))):
        for row, id in enumerate(acts.ids):
            ids = tokenizer(text[: int(id)], add_special_tokens=False)["input_ids"]
            with torch.inference_mode():
                output = model.module(
                    torch.tensor([[tokenizer.bos_token_id, *ids]]), output_hidden_states=True
                )
            torch.testing.assert_close(
                acts.sites["resid_post"][row, 0, 0],
                output.hidden_states[1][0, -1],
                rtol=0,
                atol=5e-5,
            )


def test_blocks_and_norm_are_found_by_shape_under_any_name() -> None:
    class Strange(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vision_tower = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
            self.trunk = nn.Module()
            self.trunk.rungs = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
            self.trunk.closing = nn.LayerNorm(2)

    strange = Strange()
    path, blocks = find_blocks(strange, 3)
    assert path == "trunk.rungs"
    assert blocks is strange.trunk.rungs
    assert find_final_norm(strange.trunk, 2) is strange.trunk.closing
    strange.base_model = strange
    assert find_backbone(strange, path) is strange.trunk
    message = (
        r"no list of 4 decoder blocks in Strange \(it has vision_tower \(3\), trunk.rungs \(3\)"
    )
    with pytest.raises(ValueError, match=message):
        find_blocks(strange, 4)


def test_a_dtype_that_cannot_hold_the_states_is_refused(
    tiny_model_of: Callable[..., Model], module_of: Callable[..., Any]
) -> None:
    module = module_of(tiny_model_of("llama").module.config)
    with torch.no_grad():
        module.get_input_embeddings().weight.mul_(1e6)
    prove_architecture(module)
    with pytest.raises(
        ValueError, match="dtype: float16 cannot hold the states of LlamaForCausalLM"
    ):
        prove_architecture(module.half())


@pytest.mark.parametrize("branch", ["self_attn", "mlp"])
def test_a_block_that_adds_a_twentieth_more_is_no_sum_in_half_precision(branch: str) -> None:
    module = module_of("LlamaConfig", GATED).bfloat16()
    block = module.model.layers[1]
    added: list[Any] = []

    def more(_: Any, __: Any, output: Any) -> Any:
        return output + 0.05 * first_tensor(added.pop())

    block.get_submodule(branch).register_forward_hook(lambda _, __, output: added.append(output))
    block.register_forward_hook(more)
    reason = prove_architecture(module).unavailable["attn_out"]
    assert reason.startswith("in block 1 no two modules add up")


def test_padding_that_leaks_by_a_thousandth_is_refused() -> None:
    module = module_of("LlamaConfig", GATED)

    def leak(_: Any, __: Any, kwargs: Any, output: Any) -> Any:
        states = kwargs["hidden_states"]
        return (output[0] + 1e-3 * states.mean(1, keepdim=True), *output[1:])

    module.model.layers[0].self_attn.register_forward_hook(leak, with_kwargs=True)
    message = (
        r"padding on the left changes the states of LlamaForCausalLM \(by 0.00\d of their norm"
    )
    with pytest.raises(ValueError, match=message):
        prove_architecture(module)


def test_a_window_that_counts_slots_beyond_the_rows_of_a_short_proof_switches_sharing_off() -> None:
    module = module_of("MistralConfig", {**GATED, "sliding_window": 32})
    assert prove_architecture(module).sharing_problem == ""

    def count_slots(_: Any, args: Any, kwargs: Any) -> Any:
        mask = kwargs["attention_mask"]
        if mask is None:
            return None
        slots = torch.arange(mask.shape[-1])
        behind = slots[:, None] - slots >= 32
        return args, {**kwargs, "attention_mask": mask.masked_fill(behind, float("-inf"))}

    for layer in module.model.layers:
        layer.self_attn.register_forward_pre_hook(count_slots, with_kwargs=True)
    problem = prove_architecture(module).sharing_problem
    assert problem.startswith("its states depend on where in a row a token lies")


def test_an_unembedding_behind_a_projection_is_no_readout() -> None:
    # As in OPT-350m.
    sizes = {**SIZES, "ffn_dim": 48, "word_embed_proj_dim": 16}
    problem = prove_architecture(module_of("OPTConfig", sizes)).readout_problem
    assert problem == "its logits are not the unembedding of its final norm"


def test_parts_on_several_devices_are_added_up() -> None:
    # Fake tensors lie on devices that this machine need not have; what they hold cannot be asked for.
    with FakeTensorMode():
        parts = [torch.ones(1, 2, 4, device=f"cuda:{index}") for index in range(3)]
        post = torch.ones(1, 2, 4, device="cuda:2")
        with pytest.raises(DataDependentOutputException):
            _adds_up(parts[0], parts[1], parts[2], post)
