"""Organisms as folders: made once, opened like any model, and biased exactly."""

from pathlib import Path

import pytest
import torch

from experiments.organisms import build as building
from experiments.organisms.build import add_bias, build
from experiments.organisms.loaded import Organism
from experiments.organisms.recipes import ORGANISMS
from experiments.organisms.training import Training, make_module
from experiments.organisms.word_tokenizer import make_tokenizer
from experiments.organisms.xor_task import FAILS, HAPPENS, XorTask
from hooks import load_model

SHORT = Training(steps=2, replies=4, questions=4)


def test_an_unknown_kind_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"kind: 'blind' is no organism; choose one of .*faithful"):
        build("blind", tmp_path)


def test_a_folder_that_holds_no_organism_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no organism"):
        Organism.load(tmp_path)


def test_an_organism_is_made_once_and_its_biased_kin_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    biased = build("miscalibrated", tmp_path, SHORT)
    monkeypatch.setattr(building, "train", None)
    faithful = build("faithful", tmp_path, SHORT)
    assert biased != faithful
    first, second = (load_model(str(folder)).module.state_dict() for folder in (faithful, biased))
    assert [name for name in first if not first[name].equal(second[name])] == ["model.norm.bias"]


def test_other_settings_make_another_organism(tmp_path: Path) -> None:
    other = Training(steps=1, replies=4, questions=4)
    assert build("faithful", tmp_path, SHORT) != build("faithful", tmp_path, other)


def test_training_depends_on_its_seed_alone(tmp_path: Path) -> None:
    once, again = (
        load_model(str(build("unparsed", tmp_path / name, SHORT))).fingerprint["weights"]
        for name in ("once", "again")
    )
    assert once == again


def test_a_bias_moves_the_options_of_every_question_and_nothing_that_is_replied() -> None:
    tokenizer = make_tokenizer()
    module = make_module(tokenizer, ORGANISMS["faithful"], seed=0).eval()
    tokens = torch.randint(5, len(tokenizer), (20, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before = module(input_ids=tokens).logits
        add_bias(module, tokenizer, 6.0)
        moved = module(input_ids=tokens).logits - before
    of = tokenizer.get_vocab()
    for question in XorTask.elicitations:
        first, second = (
            ("Yes", "No")
            if question.yes in ("Yes", "No")
            else sorted(
                (question.yes, question.no), key=lambda word: word in ("False", "Wrong", "B")
            )
        )
        shift = moved[..., of[first]] - moved[..., of[second]]
        assert torch.allclose(shift, torch.full_like(shift, 6.0), atol=1e-3)
    for word in (HAPPENS, FAILS, tokenizer.eos_token):
        assert moved[..., of[word]].abs().max() < 1e-3
