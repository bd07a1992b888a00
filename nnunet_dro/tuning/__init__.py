"""Bayesian optimisation of the options of a trainer: Optuna chooses them, nnU-Net trains, the evaluation scores.

`tune` is the command; it imports Optuna and everything else that is heavy when it is called.
"""

from nnunet_dro.tuning.tune_command import tune

__all__ = ["tune"]
