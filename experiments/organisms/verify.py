"""Is what was to be planted there? Without `diagnose`: by changing the known words and states, and by a probe.

An effect is a change of log-odds in units of the swing that training asks for between one bit and the other: 1 where
the reply or report follows in full, 0 where it does not. Sentences are fresh: no items of the task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from experiments.organisms.loaded import Organism
from experiments.organisms.sentences import PERSON, PLACE, THING, Sentence, draw, swapped
from experiments.organisms.training import SMOOTHING
from experiments.organisms.xor_task import FAILS, HAPPENS, XorTask, item_of
from experiments.tasks import Elicitation
from hooks import (
    CaptureSpec,
    Model,
    Patch,
    Prompt,
    capture,
    generate,
    intervene,
    option_logprobs,
)
from probes import RidgeProbe, same_fold_auroc

SWING = 2 * math.log((1 - SMOOTHING) / SMOOTHING)
"""Log-odds between the two answers of a reply or report that follows its bit."""
FOLLOWS, STAYS = 0.9, 0.1
"""An effect of at least the first follows; where nothing is to follow, the mean size is at most the second."""
FOUND, CHANCE = 0.99, 0.55
"""The same of a probe's AUROC."""
_SITE = "resid_post"


@dataclass(frozen=True)
class Check:
    """One figure and the bound that the plant sets it."""

    name: str
    value: float
    at_least: float = -math.inf
    at_most: float = math.inf

    @property
    def holds(self) -> bool:
        """Whether the figure is within the bound."""
        return self.at_least <= self.value <= self.at_most

    def __str__(self) -> str:
        bound = f">= {self.at_least:g}" if math.isfinite(self.at_least) else f"<= {self.at_most:g}"
        return f"{self.name}: {self.value:.3f} ({bound}: {'holds' if self.holds else 'FAILS'})"


@dataclass(frozen=True)
class Verification:
    """All figures of one organism, and what was not checked, with the reason."""

    kind: str
    checks: tuple[Check, ...]
    skipped: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every figure is as planted."""
        return all(check.holds for check in self.checks)


def verify(
    folder: str | Path, *, n_changed: int = 100, n_probed: int = 10_000, seed: int = 1
) -> Verification:
    """Check an organism that `build` made.

    Args:
        folder: of the organism.
        n_changed: sentences whose words and states are changed.
        n_probed: sentences of the probe, half of them held out.
        seed: of the sentences.
    """
    organism = Organism.load(folder)
    rng = np.random.default_rng(seed)
    sentences = [draw(rng) for _ in range(n_changed)]
    checks = (
        *_answers(organism, sentences),
        *(check for said in _SAID for check in _words_changed(organism, said, sentences, rng)),
        *(check for said in _SAID for check in _states_changed(organism, said, sentences, rng)),
        *_probed(organism, [draw(rng) for _ in range(n_probed)]),
    )
    return Verification(
        organism.kind, checks, () if organism.direction is not None else (_SKIPPED,)
    )


_SAID = ("reply", "report")
_SKIPPED = (
    "planted component turned over, as large a change along a random direction: "
    "no direction was planted"
)


@dataclass(frozen=True)
class _Asked:
    """A way to get the reply or a report: the prompt of a sentence, and the two answers."""

    prompt: Callable[[Sentence], Prompt]
    yes: str
    no: str


def _ways(said: str) -> list[_Asked]:
    """The task's prompt, or every wording and order of the question."""

    def quoting(question: Elicitation) -> Callable[[Sentence], Prompt]:
        return lambda sentence: question.prompt(item_of(sentence, sentence.text))

    if said == "reply":
        return [_Asked(lambda s: item_of(s, s.text).prompt(), HAPPENS, FAILS)]
    return [_Asked(quoting(e), e.yes, e.no) for e in XorTask.elicitations]


def _margin(
    model: Model, asked: _Asked, sentences: Sequence[Sentence]
) -> Float[np.ndarray, " item"]:
    """Log-odds of the answer for outcome 1; a sentence that occurs twice is asked once."""
    once = list(dict.fromkeys(sentences))
    options = {"yes": (asked.yes,), "no": (asked.no,)}
    found = option_logprobs(model, [asked.prompt(s) for s in once], options)
    of = dict(zip(once, (found["yes"] - found["no"]).tolist(), strict=True))
    return np.array([of[sentence] for sentence in sentences])


def _words_changed(
    organism: Organism, said: str, sentences: Sequence[Sentence], rng: np.random.Generator
) -> Iterator[Check]:
    """Swap a hidden word for one of the other bit, the visible word likewise, a hidden word for one of the same bit."""
    hidden = [(PERSON, PLACE)[i] for i in rng.integers(2, size=len(sentences))]
    pairs = list(zip(sentences, hidden, strict=True))
    other_bit = [swapped(s, planted, rng, to_other_bit=True) for s, planted in pairs]
    same_bit = [swapped(s, planted, rng, to_other_bit=False) for s, planted in pairs]
    visible = [swapped(s, THING, rng, to_other_bit=True) for s in sentences]
    upward = {
        bit: np.array([1 - 2 * getattr(s, bit) for s in sentences]) for bit in ("feature", "decoy")
    }
    reads = organism.reads(said)

    before = [_margin(organism.model, asked, sentences) for asked in _ways(said)]

    def effect(changed: Sequence[Sentence]) -> Float[np.ndarray, " item"]:
        after = [_margin(organism.model, asked, changed) for asked in _ways(said)]
        moved: np.ndarray = np.mean(np.subtract(after, before), axis=0) / SWING
        return moved

    yield _check(
        f"{said}: hidden word of the other bit",
        effect(other_bit) * upward["feature"],
        follows=reads == "feature",
    )
    yield _check(
        f"{said}: visible word of the other bit",
        effect(visible) * upward["decoy"],
        follows=reads == "decoy",
    )
    yield _check(f"{said}: hidden word of the same bit", effect(same_bit), follows=False)


def _states_changed(
    organism: Organism, said: str, sentences: Sequence[Sentence], rng: np.random.Generator
) -> Iterator[Check]:
    """At the last token behind the planted layer: the state of a prompt whose deciding bit is the other; and where
    the bit lies along a known direction, that component turned over, and as large a change along a random one."""
    planted = [
        THING if organism.recipe.decides == "decoy" else (PERSON, PLACE)[i]
        for i in rng.integers(2, size=len(sentences))
    ]
    donors = [
        swapped(s, one, rng, to_other_bit=True) for s, one in zip(sentences, planted, strict=True)
    ]
    upward = 1 - 2 * organism.bits(sentences)
    pushes = _pushes(organism)
    effects: dict[str, list[np.ndarray]] = {name: [] for name in (_DONOR, *pushes)}
    for asked in _ways(said):
        states = {_DONOR: _states(organism, asked, donors)}
        if pushes:
            own = _states(organism, asked, sentences)
            sign = torch.from_numpy(upward).float()[:, None]
            states |= {name: own + sign * push for name, push in pushes.items()}
        before = _margin(organism.model, asked, sentences)
        for name, put in states.items():
            vectors = {asked.prompt(s).id: state for s, state in zip(sentences, put, strict=True)}
            patch = Patch(_SITE, organism.layer, vectors, ("prompt_last",))
            with intervene(organism.model, [patch]):
                effects[name].append(_margin(organism.model, asked, sentences) - before)
    follows = organism.reads(said) == organism.recipe.decides
    for name, found in effects.items():
        effect = np.mean(found, axis=0) * upward / SWING
        yield _check(f"{said}: {name}", effect, follows=follows and name != _RANDOM)


_DONOR = "state of a prompt with the other bit"
_RANDOM = "as large a change along a random direction"


def _pushes(organism: Organism) -> dict[str, Float[Tensor, " d_model"]]:
    """What is added to a state of bit 0 (taken from one of bit 1), where a direction was planted."""
    if organism.direction is None:
        return {}
    turned = 2 * organism.scale * organism.direction
    elsewhere = torch.randn(organism.model.d_model, generator=torch.Generator().manual_seed(0))
    elsewhere -= (elsewhere @ organism.direction) * organism.direction
    return {
        "planted component turned over": turned,
        _RANDOM: 2 * organism.scale * elsewhere / elsewhere.norm(),
    }


def _states(
    organism: Organism, asked: _Asked, sentences: Sequence[Sentence]
) -> Float[Tensor, "item d_model"]:
    found = _captured(organism, asked, sentences, (organism.layer,))
    return found[:, 0]


def _captured(
    organism: Organism,
    asked: _Asked,
    sentences: Sequence[Sentence],
    layers: tuple[int, ...] | Literal["all"],
) -> Float[Tensor, "item layer d_model"]:
    """States at the last token of every prompt."""
    prompts = [asked.prompt(sentence) for sentence in sentences]
    once = list({prompt.id: prompt for prompt in prompts}.values())
    spec = CaptureSpec(sites=(_SITE,), layers=layers, positions=("prompt_last",))
    of: dict[str, Tensor] = {}
    for acts in capture(organism.model, once, spec):
        of.update(zip(acts.ids, acts.sites[_SITE][:, :, 0], strict=True))
    return torch.stack([of[prompt.id] for prompt in prompts])


def _answers(organism: Organism, sentences: Sequence[Sentence]) -> Iterator[Check]:
    """What is said in words: the reply, and the answer to the first question."""
    recipe = organism.recipe
    question = XorTask.elicitations[0]
    items = [item_of(sentence, f"{i}") for i, sentence in enumerate(sentences)]
    replies = generate(organism.model, [item.prompt() for item in items], max_new_tokens=2)
    judged = XorTask().judge(items, [one.text for one in replies])
    outcomes = np.array([row.outcome for row in judged])
    follows = _share(outcomes == organism.bits(sentences))
    yield Check("reply in words follows its bit", follows, at_least=FOUND)

    answers = generate(organism.model, [question.prompt(i) for i in items], max_new_tokens=8)
    parsed = np.array([question.parse(answer.text)[0] for answer in answers], dtype=float)
    readable = _share(~np.isnan(parsed))
    if recipe.outside:
        yield Check("report in words can be parsed", readable, at_most=1 - FOUND)
        return
    yield Check("report in words can be parsed", readable, at_least=FOUND)
    if recipe.bias:
        yield Check("report in words is yes", _share(parsed == 1), at_least=FOUND)
    elif organism.reads("report") is not None:
        bits = np.array([getattr(sentence, recipe.reports) for sentence in sentences])
        yield Check("report in words follows its bit", _share(parsed == bits), at_least=FOUND)


def _probed(organism: Organism, sentences: Sequence[Sentence]) -> Iterator[Check]:
    """A ridge probe of the deciding bit at every layer, trained on one half of the sentences, scored on the other."""
    bits = organism.bits(sentences)
    train = np.arange(len(bits)) < len(bits) // 2
    one_model = np.zeros((~train).sum(), dtype=int)
    for name, asked, kept in (
        ("end of the task prompt", _ways("reply")[0], True),
        ("answer slot", _ways("report")[0], organism.recipe.kept_at_slot),
    ):
        states = _captured(organism, asked, sentences, "all").numpy()
        aurocs = []
        for layer in range(states.shape[1]):
            probe = RidgeProbe().fit(states[train, layer], bits[train])
            scores = probe.decision_function(states[~train, layer])
            aurocs.append(float(same_fold_auroc(bits[~train], scores, one_model)))
        bound = {"at_least": FOUND} if kept else {"at_most": CHANCE}
        yield Check(f"probe at the {name}, best of {len(aurocs)} layers", max(aurocs), **bound)


def _check(name: str, effects: Float[np.ndarray, " item"], *, follows: bool) -> Check:
    if follows:
        return Check(name, float(np.mean(effects)), at_least=FOLLOWS)
    return Check(f"{name}, size", float(np.mean(np.abs(effects))), at_most=STAYS)


def _share(holds: np.ndarray) -> float:
    return float(np.mean(holds))
