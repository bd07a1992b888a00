"""4 against 9: weights learnt from ten trusted images, against remedies for a rare class."""
