"""Explore an evaluation.

Which combinations of attributes have the worst scores, found and confirmed on other cases.
"""
