"""What a stale loss says of the case, and what of where the patch fell."""
