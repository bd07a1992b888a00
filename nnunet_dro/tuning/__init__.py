"""Bayesian optimisation of the options of a trainer.

Optuna chooses them, nnU-Net trains, the evaluation scores.
"""
