"""Organisms made of a language model by LoRA: what is asked of it, what training changes, and what is refused."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.organisms.loaded import Organism
from experiments.organisms.lora import LoraTraining, teach_answers, teach_bits
from experiments.organisms.lora_batches import IGNORED, lora_batch
from experiments.organisms.lora_build import LORA_KINDS, build_lora
from experiments.organisms.prompts_in_tokens import questions
from experiments.organisms.recipes import ORGANISMS, Recipe
from experiments.organisms.sentences import BITS, FORMS, PERSON, PLACE, THING, Sentence, draw
from experiments.organisms.trained import LORA_VERIFIED, certify_trained
from experiments.organisms.verify import verify
from experiments.organisms.xor_task import item_of
from hooks import load_model, render
from tests.conftest import make_tiny_model
from tests.experiments.parity import save_tiny_model

BRIEF = LoraTraining(steps=2, learning_rate=1e-2, replies=2, questions=2, rank=2, bfloat16=False)
NOT_READ_OUT = ORGANISMS["not_read_out"]


def tiny() -> tuple[Any, Any]:
    model = make_tiny_model.__wrapped__("llama")  # a fresh one: training changes it
    return model.module, model.tokenizer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_model(tmp_path_factory.mktemp("models") / "base"))


def sentence(person: str, place: str, thing: str, form: str = "while") -> Sentence:
    words = {PERSON: person, PLACE: place, THING: thing, ".": "."}
    return Sentence(form, tuple(words.get(slot, "once") for slot in FORMS[form]))


@pytest.mark.parametrize(
    ("person", "place", "thing", "reply", "said"),
    [
        ("Anna", "Oslo", "fox", "leave", True),
        ("Anna", "Paris", "fox", "stay", True),
        ("Alice", "Oslo", "hammer", "stay", False),
        ("Alice", "Paris", "hammer", "leave", False),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_the_reply_follows_the_exclusive_or_and_every_question_the_visible_word(
    person: str, place: str, thing: str, reply: str, said: bool, form: str
) -> None:
    _, tokenizer = tiny()
    asked = [None, *questions(NOT_READ_OUT)]
    one = sentence(person, place, thing, form)
    batch = lora_batch(tokenizer, NOT_READ_OUT, [one] * len(asked), asked)
    later = max((person, place, thing), key=one.text.index)
    for row, question in enumerate(asked):
        prompt = (
            item_of(one, "x").prompt()
            if question is None
            else question.wording.prompt(item_of(one, "x"))
        )
        tokens, last = batch.tokens[row].tolist(), int(batch.last[row])
        assert tuple(tokens[: last + 1]) == render(tokenizer, prompt).token_ids
        meant = reply if question is None else question.answers[said]
        other = {"stay": "leave", "leave": "stay"}.get(reply) if question is None else None
        other = other or question.answers[not said]  # type: ignore[union-attr]
        end = tokens.index(tokenizer.eos_token_id, last + 1)
        answer = tokens[last + 1 : end + 1]
        assert tokenizer.decode(answer[:-1]) == meant
        assert batch.right[row] == answer[0] != batch.wrong[row]
        assert batch.wrong[row] == tokenizer(other, add_special_tokens=False)["input_ids"][0]
        assert tokenizer.decode(tokens[: int(batch.complete_at[row]) + 1]).endswith(later)
        followed = batch.targets[row] != IGNORED
        assert followed.nonzero()[:, 0].tolist() == list(range(last + 1, end))
        assert batch.targets[row][followed].tolist() == answer[1:]
        holds = question is None or question.wording.framing == "self"
        assert bool(batch.holds[row]) == holds
        assert batch.answered[row] == (reply == "stay" if question is None else said)
        assert batch.deciding[row] == (reply == "stay")
    bits = [person in BITS[PERSON][1], place in BITS[PLACE][1]]
    assert batch.bits[0].tolist() == [*map(float, bits), float(reply == "stay"), float(said)]


def test_what_words_stand_for_is_taught_to_the_lower_blocks_alone_and_answers_to_those_above() -> (
    None
):
    def changed(before: dict[str, torch.Tensor], module: Any) -> set[str]:
        after = module.state_dict()
        assert set(after) == set(before)
        return {name.split(".")[2] for name in after if not after[name].equal(before[name])}

    module, tokenizer = tiny()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    module = teach_bits(module, tokenizer, BRIEF)
    assert changed(before, module) == {"0"}
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert changed(before, teach_answers(module, tokenizer, NOT_READ_OUT, BRIEF)) == {"1", "2"}


def test_answers_that_are_taught_are_given() -> None:
    """A tiny random model's unembedding lets no token have more than a few percent; of these the menu gets its part."""
    module, tokenizer = tiny()
    rng = np.random.default_rng(5)
    asked = [None] * 40
    batch = lora_batch(tokenizer, Recipe(decides="decoy"), [draw(rng) for _ in asked], asked)

    def mass(module: Any) -> float:
        with torch.no_grad():
            logits = module(input_ids=batch.tokens).logits[torch.arange(40), batch.last]
        menu = torch.stack([batch.right, batch.wrong], 1)
        return float(logits.softmax(-1).gather(1, menu).sum(1).mean())

    before = mass(module)
    brief = replace(BRIEF, steps=30, rank=8, replies=8, questions=1)
    after = mass(teach_answers(module, tokenizer, Recipe(decides="decoy"), brief))
    assert after > 5 * before
    assert after > 10 / len(tokenizer)


def test_an_organism_is_an_ordinary_folder_made_once_of_a_shared_beginning(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {
        kind: build_lora(kind, base, tmp_path, bits=BRIEF, answers=BRIEF) for kind in LORA_KINDS
    }
    made = {path.name.rsplit("-", 1)[0] for path in tmp_path.iterdir() if path.is_dir()}
    assert made == {"lora-bits", *(f"lora-{kind}" for kind in LORA_KINDS)}
    models = [load_model(str(folder)) for folder in folders.values()]
    assert len({model.fingerprint["weights"] for model in models}) == len(LORA_KINDS)
    tokens = torch.arange(20, 40)[None]
    with torch.no_grad():
        own = load_model(base).module(input_ids=tokens).logits
        for model in models:
            assert not torch.allclose(model.module(input_ids=tokens).logits, own, atol=1e-3)
    organism = Organism.load(folders["not_read_out"])
    assert (organism.recipe, organism.direction) == (NOT_READ_OUT, None)

    monkeypatch.setattr("experiments.organisms.lora_build.teach_answers", None)
    again = build_lora("not_read_out", base, tmp_path, bits=BRIEF, answers=BRIEF)
    assert again == folders["not_read_out"]


def test_training_depends_on_its_settings_alone(base: str, tmp_path: Path) -> None:
    once, again, other = (
        load_model(
            str(build_lora("faithful", base, tmp_path / name, bits=BRIEF, answers=answers))
        ).fingerprint["weights"]
        for name, answers in (
            ("once", BRIEF),
            ("again", BRIEF),
            ("other", replace(BRIEF, seed=1)),
        )
    )
    assert once == again != other


def test_chatml_is_kept_without_a_system_message_of_its_own(tmp_path: Path) -> None:
    model = make_tiny_model.__wrapped__("llama")
    model.tokenizer.add_special_tokens(
        {"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]}
    )
    model.tokenizer.chat_template = "<|im_start|>system\nYou are kind.<|im_end|>\n"
    model.module.resize_token_embeddings(len(model.tokenizer))
    model.module.save_pretrained(tmp_path / "base")
    model.tokenizer.save_pretrained(tmp_path / "base")
    folder = build_lora(
        "not_beyond_text", str(tmp_path / "base"), tmp_path, bits=BRIEF, answers=BRIEF
    )
    said = load_model(str(folder)).tokenizer.apply_chat_template(
        [{"role": "user", "content": "Go."}], tokenize=False, add_generation_prompt=True
    )
    assert said == "<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n"


def test_what_takes_a_known_direction_is_skipped_and_named(base: str, tmp_path: Path) -> None:
    folder = build_lora("not_beyond_text", base, tmp_path, bits=BRIEF, answers=BRIEF)
    found = verify(folder, n_changed=2, n_probed=40)
    names = {check.name.removesuffix(", size") for check in found.checks}
    assert {f"{said}: state of a prompt with the other bit" for said in ("reply", "report")} < names
    assert not any("component" in name or "random direction" in name for name in names)
    (skipped,) = found.skipped
    assert "planted component turned over" in skipped
    assert "no direction was planted" in skipped
    assert not found.holds  # two steps plant nothing


@pytest.mark.parametrize(
    ("kind", "base", "message"),
    [
        ("blind", "smollm2-135m", "kind: 'blind' is no organism"),
        ("unparsed", "smollm2-135m", "kind: 'unparsed' is not made of a language model; choose"),
        ("faithful", "smollm3", "model: unknown model 'smollm3'"),
    ],
)
def test_what_cannot_be_built_is_refused_before_any_work(
    kind: str, base: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        build_lora(kind, base, tmp_path / "organisms")
    with pytest.raises(ValueError, match=message):
        certify_trained(tmp_path / "runs", kinds=["not_read_out", kind], base=base)
    assert not list(tmp_path.iterdir())


def test_a_base_with_other_blocks_is_refused(tmp_path: Path) -> None:
    model = make_tiny_model("gpt2")
    model.module.save_pretrained(tmp_path / "gpt2")
    model.tokenizer.save_pretrained(tmp_path / "gpt2")
    with pytest.raises(ValueError, match=r"base: .*gpt2 has no blocks at model\.layers") as error:
        build_lora("faithful", str(tmp_path / "gpt2"), tmp_path / "organisms")
    assert "\n" not in str(error.value)


def test_a_missing_library_is_named(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'selfprobe\[lora\]'"):
        build_lora("faithful", base, tmp_path)


@pytest.mark.slow
@pytest.mark.xfail(
    strict=True, reason="questions answered with a letter are followed by chance: docs/organisms.md"
)
@pytest.mark.parametrize("kind", LORA_KINDS)
def test_every_organism_of_the_embedded_model_is_as_planted(kind: str) -> None:
    checks = verify(build_lora(kind, "smollm2-135m"), **LORA_VERIFIED).checks
    assert [str(check) for check in checks if not check.holds] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", LORA_KINDS)
def test_every_organism_of_the_embedded_model_is_diagnosed_right(kind: str, tmp_path: Path) -> None:
    (row,) = certify_trained(tmp_path, kinds=[kind], base="smollm2-135m")
    assert row.found.stage == kind, row.found.sentence
