"""Two or more evaluations of the same cases."""
