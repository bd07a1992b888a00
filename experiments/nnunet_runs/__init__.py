"""Runs of nnU-Net: on the dataset of every seed, each method trained, predicted and evaluated."""
