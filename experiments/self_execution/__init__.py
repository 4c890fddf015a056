"""Released results of the Self-Execution Benchmark (arXiv 2508.12277), scored anew with controls and intervals."""

from experiments.self_execution.asked import find_prompts
from experiments.self_execution.association import AssociationScore, score_association
from experiments.self_execution.association_files import AssociationRun, read_association_run
from experiments.self_execution.association_report import association_report
from experiments.self_execution.difficulty import DifficultyScore, score_difficulty
from experiments.self_execution.difficulty_files import (
    GROUPS_FILE,
    DifficultyRun,
    read_difficulty_run,
    read_questions,
)
from experiments.self_execution.difficulty_report import difficulty_report
from experiments.self_execution.published import (
    Comparison,
    compare_published,
    comparison_lines,
    read_published,
)
from experiments.self_execution.refusal import RefusalScore, score_refusal
from experiments.self_execution.refusal_files import RefusalRun, read_refusal_run
from experiments.self_execution.refusal_report import refusal_report
from experiments.self_execution.report import Report
from experiments.self_execution.tables import comparison_json
from experiments.self_execution.xstest import XSTest, read_xstest

__all__ = [
    "GROUPS_FILE",
    "AssociationRun",
    "AssociationScore",
    "Comparison",
    "DifficultyRun",
    "DifficultyScore",
    "RefusalRun",
    "RefusalScore",
    "Report",
    "XSTest",
    "association_report",
    "compare_published",
    "comparison_json",
    "comparison_lines",
    "difficulty_report",
    "find_prompts",
    "read_association_run",
    "read_difficulty_run",
    "read_published",
    "read_questions",
    "read_refusal_run",
    "read_xstest",
    "refusal_report",
    "score_association",
    "score_difficulty",
    "score_refusal",
]
