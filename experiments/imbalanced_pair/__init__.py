"""4 against 9, imbalanced.

Weights learnt from ten trusted images, against the usual remedies for a rare class.
"""
