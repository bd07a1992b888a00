"""Dice against iterations: what trainings of the same seeds give, and what a rule asks of them."""

from experiments.curves.figure import draw_curves, draw_differences, draw_intervals
from experiments.curves.results import (
    Roles,
    ScoredRun,
    at_the_end,
    decision,
    differences,
    mean_interval,
    mean_of_rare,
    results_table,
    scores_of,
    shown_difference,
)

__all__ = [
    "Roles",
    "ScoredRun",
    "at_the_end",
    "decision",
    "differences",
    "draw_curves",
    "draw_differences",
    "draw_intervals",
    "mean_interval",
    "mean_of_rare",
    "results_table",
    "scores_of",
    "shown_difference",
]
