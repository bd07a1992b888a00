"""The figures of a report, as inline SVG without scripts; colours come from the page's style sheet."""
