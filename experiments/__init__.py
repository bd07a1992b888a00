"""Experiments on the claims of the papers.

Each a package to run, which writes a page, a picture and a table.
"""
