"""What `causal.json` is called by, and what people read in place of its names: one place for all that reads it."""

from __future__ import annotations

from collections.abc import Mapping

SCHEMA = 2
"""Of `causal.json`; raised when a field changes its meaning."""

READOUTS: Mapping[str, str] = {
    "behavior": "behavior",
    "self_report": "report about itself",
    "other_report": "report about another",
    "input_question": "question about the input",
}
"""The rows of the dissociation table, in its order."""

DIRECTIONS: Mapping[str, str] = {
    "probe": "probe direction",
    "diff_means": "difference of means",
}
"""The two directions of the outcome; the first is the one that verdicts are about."""

UNREAD = "what is read of the behavior does not tell its outcomes apart where nothing is changed"
"""Why a movement of what is read as the behavior is none of the behavior."""

LEAD = "self_minus_other"
"""In the shift test: of the report about itself over that about another, on the same flips."""

FITS_NEW = "fits the changed behavior"
"""The verdict of the shift test in favor."""
