"""Dice against iterations: what trainings of the same seeds give, and what a rule asks of them."""

from experiments.curves.figure import draw_curves, draw_differences
from experiments.curves.results import (
    Roles,
    ScoredRun,
    decision,
    differences,
    mean_interval,
    mean_of_rare,
    results_table,
    scores_of,
    shown_difference,
    verdict,
)

__all__ = [
    "Roles",
    "ScoredRun",
    "decision",
    "differences",
    "draw_curves",
    "draw_differences",
    "mean_interval",
    "mean_of_rare",
    "results_table",
    "scores_of",
    "shown_difference",
    "verdict",
]
