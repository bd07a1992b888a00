"""Rare modalities of cell nuclei: which way of drawing finds them, and what do others pay?"""
