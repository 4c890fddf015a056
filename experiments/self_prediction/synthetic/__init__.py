"""Items that are made in number: from templates and by the model itself, with outcomes that were observed."""

from experiments.self_prediction.synthetic.draft import Bank, Draft, Request
from experiments.self_prediction.synthetic.pipeline import BANKS, Synthesized, synthesize

__all__ = ["BANKS", "Bank", "Draft", "Request", "Synthesized", "synthesize"]
