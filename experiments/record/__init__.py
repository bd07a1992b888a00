"""The record of an experiment: a page to read, its picture and its table, with how they were made."""

from experiments.record.cached_runs import cached_runs
from experiments.record.collapsed import collapse_rates, collapsed_trainings, without_collapsed
from experiments.record.command_line import QUICK_RESULTS, RESULTS, experiment_parser, module_command, result_folder
from experiments.record.experiment import Experiment, Finished, Options, Page
from experiments.record.markdown_table import markdown_table, methods_by_stratum, shown_rows
from experiments.record.more_seeds import add_more_seeds, added_seeds, with_seeds_before
from experiments.record.of_seed import OfSeed
from experiments.record.runs import add_jobs, cache_folder
from experiments.record.templates import render
from experiments.record.whole_result import write_result, write_table

__all__ = [
    "QUICK_RESULTS",
    "RESULTS",
    "Experiment",
    "Finished",
    "OfSeed",
    "Options",
    "Page",
    "add_jobs",
    "add_more_seeds",
    "added_seeds",
    "cache_folder",
    "cached_runs",
    "collapse_rates",
    "collapsed_trainings",
    "experiment_parser",
    "markdown_table",
    "methods_by_stratum",
    "module_command",
    "render",
    "result_folder",
    "shown_rows",
    "with_seeds_before",
    "without_collapsed",
    "write_result",
    "write_table",
]
