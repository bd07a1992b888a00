"""One case to numbers: label maps are read, and every metric is computed."""
