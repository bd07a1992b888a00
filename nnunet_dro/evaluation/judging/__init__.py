"""Statistics and their bounds to verdicts: requirements, margins, plans."""
