"""The report of a run: figures and a self-contained page, from its results alone."""

from experiments.report.figures import FigurePaths, write_figures
from experiments.report.layers import plot_layers
from experiments.report.page import write_page

__all__ = ["FigurePaths", "plot_layers", "write_figures", "write_page"]
