"""Find the combinations of attributes that have the worst scores in an evaluation.

They are found in one half of the cases and confirmed on the other.
"""
