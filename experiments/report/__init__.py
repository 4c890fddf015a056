"""The report of a run: figures and a self-contained page, from its results alone."""

from experiments.report.figures import FigurePaths, write_figures, write_layer_curves
from experiments.report.layers import plot_layers
from experiments.report.page import write_page
from experiments.report.verdict import verdict_sentence

__all__ = [
    "FigurePaths",
    "plot_layers",
    "verdict_sentence",
    "write_figures",
    "write_layer_curves",
    "write_page",
]
