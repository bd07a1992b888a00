"""Reports of an evaluation and of a comparison.

A page, and tables for papers, notes and the terminal.
"""

from nnunet_dro.evaluation.report.comparison_page import comparison_html
from nnunet_dro.evaluation.report.documents import (
    comparison_latex,
    comparison_markdown,
    comparison_reports,
    comparison_table,
    evaluation_latex,
    evaluation_markdown,
    evaluation_reports,
    evaluation_table,
)
from nnunet_dro.evaluation.report.evaluation_page import evaluation_html
from nnunet_dro.evaluation.report.gallery import pictures_of

__all__ = [
    "comparison_html",
    "comparison_latex",
    "comparison_markdown",
    "comparison_reports",
    "comparison_table",
    "evaluation_html",
    "evaluation_latex",
    "evaluation_markdown",
    "evaluation_reports",
    "evaluation_table",
    "pictures_of",
]
