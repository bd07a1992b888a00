"""Numbers of things and names of cases as readers see them, on pages and in the terminal."""

#: What stands where there is no number.
NO_VALUE = "–"


def count(n: int, noun: str) -> str:
    """A number of things: ``1 case``, ``1,200 cases``; nouns in -um and -y take their plurals."""
    if n == 1:
        return f"1 {noun}"
    plural = {"stratum": "strata"}.get(noun, f"{noun}s")
    return f"{n:,} {plural}"


def share(value: float) -> str:
    """A share in per cent; never 0 or 100 for what is not."""
    percent = 100 * value
    if 0 < percent < 0.5:
        return "<1 %"
    if 99.5 <= percent < 100:
        return ">99 %"
    return f"{percent:.0f} %"


def plain(name: str) -> str:
    """Text without control characters: a name must not move the cursor."""
    return "".join(character if character.isprintable() else "�" for character in name)
