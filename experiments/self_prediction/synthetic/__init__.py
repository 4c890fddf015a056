"""Items that are made in number: from templates and by the model itself, with outcomes that were observed."""

from experiments.self_prediction.synthetic.pipeline import Synthesized, synthesize

__all__ = ["Synthesized", "synthesize"]
