"""Teaching the words: which tokens are asked for, the loss by hand, and that it is learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from experiments.adapters import adapted
from experiments.self_prediction.spelled import answer_tokens
from experiments.self_prediction.training import TrainSettings, train
from experiments.self_prediction.verbal import SayIt
from experiments.tasks import Elicitation
from hooks import Model, Prompt, generate, option_logprobs, render
from tests.conftest import make_tiny_model, make_tokenizer
from tests.experiments.self_prediction.menu import QUESTION, labeled, menu_model

TRAIN, VALIDATION = labeled([1, 0, 0, 1, 1, 0]), labeled([0, 1, 1], first=6)
OTHER_ORDER: Elicitation = replace(QUESTION, name="letters-ba", order="ba", yes="B", no="A")


def say(model: Model, **settings: Any) -> SayIt:
    parameters = {"weight": model.module.get_output_embeddings().weight}
    settings = {"parameters": parameters, "batch": 4, **settings}
    return SayIt(model, TRAIN, VALIDATION, [QUESTION, OTHER_ORDER], **settings)


def chat_with_answer(model: Model, prompt: Prompt, answer: str) -> tuple[int, ...]:
    """A whole chat, the answer in it, as the template writes it, up to the token that ends the turn."""
    tokenizer = model.tokenizer
    assert prompt.messages is not None
    turns = [*prompt.messages, {"role": "assistant", "content": answer}]
    ids = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    *_, last = [i for i, token in enumerate(ids) if token not in special and _said(model, token)]
    end = next((token for token in ids[last + 1 :] if token in special), tokenizer.eos_token_id)
    start = [] if ids[0] == tokenizer.bos_token_id else [tokenizer.bos_token_id]
    return (*start, *ids[: last + 1], end)


def _said(model: Model, token: int) -> bool:
    return bool(model.tokenizer.decode([token]).strip())


@pytest.mark.parametrize("answer", ["A", "Yes", "yes"])
def test_an_answer_is_spelled_as_in_a_whole_chat(tiny_model: Model, answer: str) -> None:
    prompt = Prompt.chat("one", "Will you decline?")
    together = (*render(tiny_model, prompt).token_ids, *answer_tokens(tiny_model, answer))
    assert together == chat_with_answer(tiny_model, prompt, answer)


def test_without_a_template_an_answer_is_a_turn_of_a_transcript() -> None:
    model = make_tiny_model.__wrapped__("llama")
    model.tokenizer.chat_template = None
    tokens = answer_tokens(model, "Yes")
    assert model.tokenizer.decode(tokens) == " Yes</s>"
    assert tokens[-1] == model.tokenizer.eos_token_id


def test_an_empty_chain_of_thought_is_left_out() -> None:
    """The answer slot of every other measurement stands right behind the prompt."""
    model = make_tiny_model.__wrapped__("gpt2")
    before = answer_tokens(model, "Yes")
    model.tokenizer.chat_template = model.tokenizer.chat_template.replace(
        "{{ m['content'] }}",
        "{% if m['role'] == 'assistant' %}<think>\n\n</think>\n\n{% endif %}{{ m['content'] }}",
    )
    assert answer_tokens(model, "Yes") == before


def test_a_tokenizer_that_grows_over_the_boundary_gets_the_answer_alone() -> None:
    """Here the template's last letter and the answer's first ones would be one token together."""
    model = make_tiny_model.__wrapped__("llama")
    model.tokenizer = make_tokenizer(
        "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %} ca{% endif %}",
        bos="<s>",
        eos="</s>",
    )
    together = model.tokenizer(" capital", add_special_tokens=False)["input_ids"]
    assert len(together) == 1
    alone = model.tokenizer("pital", add_special_tokens=False)["input_ids"]
    assert answer_tokens(model, "pital") == (*alone, model.tokenizer.eos_token_id)


def by_hand(model: Model, part: Any, chosen: list[tuple[int, Elicitation]]) -> Tensor:
    """Negative log-probability of the true answer, read chat by chat."""
    losses = []
    for item, question in chosen:
        answer = question.yes if part.outcome[item] else question.no
        prompt = question.prompt(part.items[item])
        ids = torch.tensor(chat_with_answer(model, prompt, answer))
        n_prompt = len(render(model, prompt))
        logprobs = model.module(input_ids=ids[None]).logits[0].float().log_softmax(-1)
        own = torch.arange(n_prompt, len(ids))
        losses.append(-logprobs[own - 1, ids[own]].sum())
    return torch.stack(losses)


def test_the_loss_is_the_cross_entropy_of_the_true_answer_and_its_end(tiny_model: Model) -> None:
    every = [(i, question) for i in range(3) for question in (QUESTION, OTHER_ORDER)]
    with torch.no_grad():
        expected = by_hand(tiny_model, VALIDATION, every)
        assert say(tiny_model).validate() == pytest.approx(expected.mean().item(), rel=1e-5)


def test_the_steps_of_an_epoch_go_through_every_item_and_question() -> None:
    model = make_tiny_model("llama")
    every = [(i, question) for i in range(6) for question in (QUESTION, OTHER_ORDER)]
    objective = say(model)
    with torch.no_grad():
        of_steps = [sum(float(loss) for loss in objective.losses(step)) for step in range(3)]
        expected = by_hand(model, TRAIN, every)
    assert np.mean(of_steps) == pytest.approx(expected.mean().item(), rel=1e-5)
    assert len(set(of_steps)) == 3


def test_micro_batches_add_up_to_the_step() -> None:
    model = make_tiny_model("llama")

    def gradient(**settings: Any) -> tuple[float, Tensor]:
        objective = say(model, **settings)
        (weight,) = objective.parameters.values()
        losses = list(objective.losses(2))
        assert len(losses) == settings.get("accumulate", 1)
        total = torch.stack(losses).sum()
        return float(total.detach()), torch.autograd.grad(total, [weight])[0]

    whole, parts = gradient(), gradient(accumulate=3)
    assert parts[0] == pytest.approx(whole[0], rel=1e-5)
    assert whole[1].any()
    torch.testing.assert_close(parts[1], whole[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_is_taught_is_said_and_the_trunk_is_as_before(precision: Any) -> None:
    """It learns six prompts by heart."""
    model = menu_model((" A", " B", "</s>"))
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    prompts = [QUESTION.prompt(item) for item in TRAIN.items]
    with adapted(model, rank=8) as adapters:
        words = SayIt(
            model, TRAIN, TRAIN, [QUESTION], parameters=adapters.parameters, batch=6, seed=1
        )
        settings = TrainSettings(
            steps=60, learning_rate=2e-2, evaluate_every=20, precision=precision
        )
        untrained = words.validate()
        trained = train(words, settings)
        assert trained.best_loss < 0.2 * untrained
        said = {c.id: c for c in generate(model, prompts, max_new_tokens=4)}
        odds = option_logprobs(model, prompts, {"A": ("A",), "B": ("B",)})
    meant = ["A" if outcome else "B" for outcome in TRAIN.outcome]
    assert [said[prompt.id].text.strip() for prompt in prompts] == meant
    assert all(completion.finished for completion in said.values())
    assert ((odds["A"] > odds["B"]).numpy() == (TRAIN.outcome == 1)).all()
    after = model.module.state_dict()
    assert all(after[name].equal(before[name]) for name in before)
    assert set(after) == set(before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 0}, "batch: 0 is not positive"),
        ({"batch": 4, "accumulate": 5}, "accumulate: 5 parts of 4; give from 1 to 4"),
        ({"train": labeled([])}, "train: no items"),
        ({"validation": labeled([])}, "validation: no items"),
        ({"elicitations": []}, "elicitations: none"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    model = make_tiny_model("llama")
    given: dict[str, Any] = {"train": TRAIN, "validation": VALIDATION, "elicitations": [QUESTION]}
    with pytest.raises(ValueError, match=message):
        SayIt(model, parameters={}, **{**given, **settings})
