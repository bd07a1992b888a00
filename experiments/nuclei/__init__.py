"""Rare modalities of cell nuclei.

Which way of drawing finds them without being told, and what do the others pay?
"""
