"""The record of an experiment: a page to read, its pictures and tables, and how they were made."""

from experiments.record.collapsed import collapse_rates, collapsed_trainings, without_collapsed
from experiments.record.experiment import Experiment, Finished, Options, Page
from experiments.record.markdown_table import methods_by_stratum, wide_table
from experiments.record.templates import render

__all__ = ["Experiment", "Finished", "Options", "Page", "collapse_rates", "collapsed_trainings"]
__all__ += ["methods_by_stratum", "render", "wide_table", "without_collapsed"]
