"""Explore an evaluation: which combinations of attributes have the worst scores, found and confirmed on other cases.

`explore` is the command; it imports everything heavy when it is called.
"""

from nnunet_dro.exploration.command import explore

__all__ = ["explore"]
