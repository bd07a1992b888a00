"""What the self-contained pages are made of: templates, figures, outlines, pictures and a sortable table."""
