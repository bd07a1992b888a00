"""Which cases belong together: columns of the case table, computed attributes, folds."""
