"""4 against 9, imbalanced: weights learnt from ten trusted images beside the usual remedies for a rare class."""
