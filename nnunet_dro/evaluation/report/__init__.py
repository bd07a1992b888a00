"""Reports of an evaluation and of a comparison: a page, and tables for papers, notes and the terminal."""

from nnunet_dro.evaluation.report.files import comparison_reports, evaluation_reports, pictures_of
from nnunet_dro.evaluation.report.gallery import GalleryEntry, gallery_entries, worst_cases
from nnunet_dro.evaluation.report.html import comparison_html, evaluation_html
from nnunet_dro.evaluation.report.latex import comparison_latex, evaluation_latex
from nnunet_dro.evaluation.report.markdown import comparison_markdown, evaluation_markdown
from nnunet_dro.evaluation.report.terminal import comparison_table, evaluation_table, splits_table

__all__ = [
    "GalleryEntry",
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
    "gallery_entries",
    "pictures_of",
    "splits_table",
    "worst_cases",
]
