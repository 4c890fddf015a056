"""What is planted is found without the diagnosis, and what is not planted is not."""

import json
import shutil
from pathlib import Path

import pytest

from experiments.organisms.build import build
from experiments.organisms.recipes import ORGANISMS
from experiments.organisms.trained import certify_trained
from experiments.organisms.training import Training
from experiments.organisms.verify import Check, verify

BRIEF = Training(steps=150, replies=48, questions=12, set_share=0.5)
"""Long enough for the reply, and for reports in some wordings."""


@pytest.fixture(scope="module")
def organism(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("faithful", tmp_path_factory.mktemp("organisms"), BRIEF)


def failing(folder: Path) -> set[str]:
    checks = verify(folder, n_changed=12, n_probed=200).checks
    return {check.name for check in checks if not check.holds}


def test_the_reply_follows_the_planted_words_state_and_direction(organism: Path) -> None:
    failed = failing(organism)
    assert not {name for name in failed if name.startswith(("reply", "probe"))}


def test_a_plant_that_is_not_there_is_not_verified(organism: Path, tmp_path: Path) -> None:
    """The same weights, said to decide by the visible word."""
    folder = tmp_path / "mislabeled"
    shutil.copytree(organism, folder)
    about = json.loads((folder / "organism.json").read_text(encoding="utf-8"))
    about["recipe"]["decides"] = "decoy"
    (folder / "organism.json").write_text(json.dumps(about), encoding="utf-8")
    assert failing(folder) >= {
        "reply in words follows its bit",
        "reply: hidden word of the other bit, size",
        "reply: visible word of the other bit",
        "reply: planted component turned over",
    }


def test_a_bound_holds_on_its_own_side_alone() -> None:
    assert Check("follows", 0.95, at_least=0.9).holds
    assert not Check("follows", 0.85, at_least=0.9).holds
    assert not Check("stays", 0.95, at_most=0.1).holds
    assert str(Check("stays", 0.95, at_most=0.1)) == "stays: 0.950 (<= 0.1: FAILS)"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ORGANISMS)
def test_every_organism_is_as_planted_and_is_diagnosed_right(kind: str, tmp_path: Path) -> None:
    (row,) = certify_trained(tmp_path, kinds=[kind])
    assert [str(check) for check in row.verification.checks if not check.holds] == []
    assert row.found.stage == kind, row.found.sentence
