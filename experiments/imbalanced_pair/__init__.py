"""4 against 9, imbalanced: weights learnt from ten trusted images, against the usual remedies for a rare class."""
