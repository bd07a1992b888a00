"""Bayesian optimisation of trainer options: real nnU-Net trainings, scored by the evaluation, chosen by Optuna.

`tune` is the command; it imports what it needs once it is called.
"""

from nnunet_dro.tuning.tune_command import tune

__all__ = ["tune"]
