"""Experiments on the claims of the papers: each a module to run, which writes a page, a picture and a table."""
