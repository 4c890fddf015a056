"""What people read in place of the names of `causal.json`: one place for figures, page and command line."""

from __future__ import annotations

from collections.abc import Mapping

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
