"""How long something takes, in words."""


def shown_duration(seconds: float) -> str:
    """A duration as it is shown: "2 h 5 min", "3 min 12 s" or "4.2 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
