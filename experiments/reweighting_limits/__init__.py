"""What reweighting cannot change.

Six digits and three ways to weight them, with models trained to the end.
"""
