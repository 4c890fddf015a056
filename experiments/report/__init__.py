"""The report of a run: figures and a self-contained page, from its results alone."""

from experiments.report.figures import FigurePaths, write_figures, write_layer_curves
from experiments.report.heatmap import plot_heatmap
from experiments.report.layers import plot_layers
from experiments.report.learning import plot_sample_efficiency
from experiments.report.limits import run_notes
from experiments.report.matrices import cosine_figure, transfer_figure, write_direction_figures
from experiments.report.page import write_page
from experiments.report.task_page import Beside
from experiments.report.verdict import verdict_sentence
from experiments.report.words import words_advice

__all__ = [
    "Beside",
    "FigurePaths",
    "cosine_figure",
    "plot_heatmap",
    "plot_layers",
    "plot_sample_efficiency",
    "run_notes",
    "transfer_figure",
    "verdict_sentence",
    "words_advice",
    "write_direction_figures",
    "write_figures",
    "write_layer_curves",
    "write_page",
]
