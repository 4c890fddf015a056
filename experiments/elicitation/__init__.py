"""What the model says that it will do."""

from experiments.elicitation.ask import (
    ANSWER_TOKENS,
    OTHER_CONTEXTS,
    Options,
    Questions,
    SelfPrediction,
    Words,
    answer_length,
    generate_answers,
    option_spellings,
    read_options,
    read_reports,
)

__all__ = [
    "ANSWER_TOKENS",
    "OTHER_CONTEXTS",
    "Options",
    "Questions",
    "SelfPrediction",
    "Words",
    "answer_length",
    "generate_answers",
    "option_spellings",
    "read_options",
    "read_reports",
]
