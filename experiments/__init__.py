"""Experiments on the claims of the papers, each a package that writes a page with its tables."""
