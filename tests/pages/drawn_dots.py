"""The dots of figures, as they stand in a page before its script parts them."""

import re

_RUN = re.compile(r'points="([^"]*)" data-look="([^"]*)" data-rows="([^"]*)" data-order="([^"]*)"')


def drawn_dots(content: str) -> list[tuple[int, float, float]]:
    """The row and the place of every dot, in the order of drawing of each figure."""
    dots = []
    for group in re.findall(r'<g class="dots">(.*?)</g>', content):
        placed = []
        for points, _, rows, order in _RUN.findall(group):
            numbers = [int(row) for row in rows.split()]
            # The last point has no marker.
            *places, _ = points.split()
            ranks = [int(rank) for rank in order.split()] or range(len(numbers))
            for rank, row, place in zip(ranks, numbers, places, strict=True):
                x, y = map(float, place.split(","))
                placed.append((rank, row, x, y))
        dots += [dot[1:] for dot in sorted(placed)]
    return dots
