"""The line that says how the training cases changed since a checkpoint."""

from collections.abc import Sequence


def change_of_cases(new: Sequence[str], gone: Sequence[str]) -> str | None:
    """One line for the log, or None if nothing changed.

    Args:
        new: Cases that the checkpoint does not have.
        gone: Cases that only the checkpoint has.
    """
    if not new and not gone:
        return None
    return (
        f"The training cases changed since the checkpoint: {len(new)} new (start unseen{_examples(new)}), "
        f"{len(gone)} gone (dropped{_examples(gone)})."
    )


def _examples(cases: Sequence[str]) -> str:
    if not cases:
        return ""
    return ": " + ", ".join(cases[:3]) + (", ..." if len(cases) > 3 else "")
