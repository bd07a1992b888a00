"""The record of an experiment: a page to read, its pictures and tables, and how they were made."""

from experiments.record.collapsed import collapse_rates, collapsed_trainings, without_collapsed
from experiments.record.experiment import Experiment, Finished, Options, Page, Tables
from experiments.record.markdown_table import SAME_TRAINING, methods_by_stratum, wide_table
from experiments.record.templates import render

__all__ = ["SAME_TRAINING", "Experiment", "Finished", "Options", "Page", "Tables"]
__all__ += ["collapse_rates", "collapsed_trainings", "methods_by_stratum", "render", "wide_table"]
__all__ += ["without_collapsed"]
