"""Dice against iterations: what trainings of the same seeds give, and what a rule asks of them."""
