"""Explore an evaluation: which combinations of attributes have the worst scores, found and confirmed on other cases."""
