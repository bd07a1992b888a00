"""Numbers to statistics and their intervals."""
