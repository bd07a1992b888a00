"""Rank many methods: ranking schemes, how stable each rank is, tests of all pairs, ranks per stratum.

`rank` is the command; it imports everything heavy when it is called.
"""

from nnunet_dro.ranking.command import rank

__all__ = ["rank"]
