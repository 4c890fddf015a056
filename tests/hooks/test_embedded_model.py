"""The real model end to end, against transformers on single unpadded prompts."""

from __future__ import annotations

import pytest
import torch

from hooks import (
    SITES,
    CaptureSpec,
    Model,
    Prompt,
    capture,
    generate,
    option_logprobs,
    render,
)
from hooks.positions import token_range

POSITIONS = ("mean_instruction", "quote_last", "instruction_last", "template_1", "prompt_last")
PROMPTS = [
    Prompt.chat(f"{index}", f'Request: "{quote}" {question}', quote=quote)
    for index, (quote, question) in enumerate(
        (quote, question)
        for quote in ("What is the capital of France?", "What is Zoë's phone number?")
        for question in ("Will you decline it?", "Answer yes or no: will you answer it?")
    )
]


@pytest.mark.parametrize("share_prefixes", [True, False])
def test_capture_equals_transformers(embedded_model: Model, share_prefixes: bool) -> None:
    spec = CaptureSpec(sites=SITES, layers=(0, 15, 29), positions=POSITIONS)
    batches = list(capture(embedded_model, PROMPTS, spec, share_prefixes=share_prefixes))
    assert sorted(id for acts in batches for id in acts.ids) == ["0", "1", "2", "3"]
    for acts in batches:
        for row, id in enumerate(acts.ids):
            rendered = render(embedded_model, PROMPTS[int(id)])
            with torch.inference_mode():
                output = embedded_model.module(
                    torch.tensor([rendered.token_ids]), output_hidden_states=True
                )
            hidden = [states[0] for states in output.hidden_states]
            for index, position in enumerate(POSITIONS):
                start, end = token_range(rendered, position)
                for site, axis, wanted in (
                    ("embed", 0, hidden[0]),
                    ("resid_post", 0, hidden[1]),
                    ("resid_pre", 1, hidden[15]),
                    ("resid_post", 1, hidden[16]),
                    ("resid_pre", 2, hidden[29]),
                    ("final_norm", 0, hidden[30]),
                ):
                    mean = wanted[start:end].mean(0)
                    error = (acts.sites[site][row, axis, index] - mean).abs().max()
                    assert float(error) <= 5e-5 * max(1.0, float(mean.abs().max()))


def test_options_and_answers(embedded_model: Model) -> None:
    prompts = [
        Prompt.chat("capital", "What is the capital of France? Answer in one word."),
        Prompt.chat("opposite", "What is the opposite of hot? Answer in one word."),
    ]
    options = {"paris": ["Paris"], "cold": ["cold"]}
    found = option_logprobs(embedded_model, prompts, options)
    assert found["paris"][0] > found["cold"][0]
    assert found["cold"][1] > found["paris"][1]
    (completion,) = generate(
        embedded_model, [Prompt.chat("a", "What is the capital of France?")], max_new_tokens=12
    )
    assert "Paris" in completion.text
    assert completion.finished
    assert completion.n_tokens < 12


def test_fingerprint_names_the_published_weights(embedded_model: Model) -> None:
    fingerprint = embedded_model.fingerprint
    assert fingerprint["weights"] == (
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    )
    assert (fingerprint["n_layers"], fingerprint["d_model"]) == (30, 576)
    assert embedded_model.architecture.sites == SITES
    assert embedded_model.architecture.sharing_problem == ""
