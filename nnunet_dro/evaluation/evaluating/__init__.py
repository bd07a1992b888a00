"""Folders to an evaluation, its files, and back from these or from tables of others."""
