"""What the self-contained pages are made of.

Templates, figures, outlines, pictures and a sortable table.
"""
