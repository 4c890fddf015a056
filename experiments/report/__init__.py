"""The report of a run: figures and a self-contained page, from its results alone."""

from experiments.report.figures import FigurePaths, write_figures, write_layer_curves
from experiments.report.layers import plot_layers
from experiments.report.matrices import cosine_figure, transfer_figure, write_direction_figures
from experiments.report.page import write_page
from experiments.report.verdict import verdict_sentence

__all__ = [
    "FigurePaths",
    "cosine_figure",
    "plot_layers",
    "transfer_figure",
    "verdict_sentence",
    "write_direction_figures",
    "write_figures",
    "write_layer_curves",
    "write_page",
]
