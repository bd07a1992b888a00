"""Rare modalities of cell nuclei: which way of drawing finds them without being told, and what do the others pay?"""
