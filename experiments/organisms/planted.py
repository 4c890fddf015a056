"""What is planted: how well the outcome can be read at every step from the text to the words.

A plant is stated in values of the population, so that the right diagnosis follows from the rules and never from a run
of the instrument. `effect` counts losses in full ones; a full one is 2.5 times the margin of the rule that it concerns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

PLANTED_STAGES = (
    "not_beyond_text",
    "not_transported",
    "not_read_out",
    "unparsed",
    "miscalibrated",
    "faithful",
)
KNOWN = 0.85
"""AUROC of the best reader of the task state."""
SAID_BY_TEXT = 0.65
"""AUROC of the best reader of the text."""
FULL_LOSS = KNOWN - SAID_BY_TEXT
"""In AUROC: down to what the text says. The margin is 0.08."""
FULL_BIAS = 1.25
"""In the criterion c of the answers. The margin is 0.5."""
FULL_SILENCE = 0.5
"""Share of answers that cannot be parsed. The margin is 0.2."""


@dataclass(frozen=True)
class Plant:
    """Values of the population along the path; of `text` to `words`, the AUROC of the best reader."""

    text: float = SAID_BY_TEXT
    task: float = KNOWN
    slot: float = KNOWN
    words: float = KNOWN
    """Of the log-odds; under 0.5 they are inverted."""
    criterion: float = 0.0
    """Criterion c of the answers: positive where they say "no" too often."""
    parse_rate: float = 1.0
    holds_text: bool = True
    """Whether the states hold what the text says; else text and states complement each other."""

    def __post_init__(self) -> None:
        for name in ("text", "task", "slot"):
            if not 0.5 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is no AUROC from 0.5 up to 1")
        if not 0 <= self.parse_rate <= 1:
            raise ValueError(f"parse_rate: {self.parse_rate} is no share")
        if self.holds_text and self.task < self.text:
            raise ValueError(f"task: {self.task} is under the text's {self.text}, which it holds")
        if self.slot > self.task:
            raise ValueError(f"slot: {self.slot} is over the task state's {self.task}")
        if abs(self.words - 0.5) > self.slot - 0.5 + 1e-9:
            raise ValueError(f"words: {self.words} cannot be read from a slot of {self.slot}")


def plant_of(
    stage: str, effect: float = 1.0, *, known: float = KNOWN, said: float = SAID_BY_TEXT
) -> Plant:
    """The plant of a stage, its loss `effect` times the full one, which is known - said (0.20) in AUROC.

    not_beyond_text: text and states say the same, `effect` x (known - 0.5) over chance.
    not_transported, not_read_out: `effect` full losses of AUROC on the way to the slot, or to the words.
    unparsed: `effect` x 0.5 of the answers cannot be parsed. miscalibrated: a criterion of `effect` x 1.25.
    faithful: the states know `effect` full losses of AUROC more than the text does, and the words say it.

    Args:
        stage: one of `PLANTED_STAGES`.
        effect: 0 plants no loss, which leaves another stage than the named one.
        known: AUROC of the best reader of the task state.
        said: of the best reader of the text.

    Raises ValueError for another stage, and for an effect that leads out of what an AUROC or a share can be.
    """
    sound = Plant(text=said, task=known, slot=known, words=known)
    left = round(known - effect * (known - said), 12)
    try:
        if stage == "not_beyond_text":
            same = 0.5 + effect * (known - 0.5)
            return Plant(text=same, task=same, slot=same, words=same)
        if stage == "not_transported":
            return replace(sound, slot=left, words=left)
        if stage == "not_read_out":
            return replace(sound, words=left)
        if stage == "unparsed":
            return replace(sound, parse_rate=1 - effect * FULL_SILENCE)
        if stage == "miscalibrated":
            return replace(sound, criterion=effect * FULL_BIAS)
        if stage == "faithful":
            return replace(sound, text=left)
    except ValueError as error:
        raise ValueError(f"effect: {effect} is more than {stage} can lose ({error})") from None
    raise ValueError(f"stage: {stage!r} is unknown; choose one of {', '.join(PLANTED_STAGES)}")
