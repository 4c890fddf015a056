"""Released results of the Self-Execution Benchmark (arXiv 2508.12277), scored anew with controls and intervals."""

from experiments.self_execution.refusal import RefusalScore, score_refusal
from experiments.self_execution.refusal_figure import write_refusal_figure
from experiments.self_execution.refusal_files import RefusalRun, read_refusal_run
from experiments.self_execution.refusal_tables import refusal_json, refusal_text, score_rows
from experiments.self_execution.xstest import XSTest, read_xstest

__all__ = [
    "RefusalRun",
    "RefusalScore",
    "XSTest",
    "read_refusal_run",
    "read_xstest",
    "refusal_json",
    "refusal_text",
    "score_refusal",
    "score_rows",
    "write_refusal_figure",
]
