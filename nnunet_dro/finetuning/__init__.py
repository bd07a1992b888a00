"""Finetuning: a training of this package's trainers that starts from a finished one, segmentation heads included."""
