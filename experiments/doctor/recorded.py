"""The experiments with nnU-Net of this repository, what came out of them, and which findings agree with it."""

from dataclasses import dataclass

from nnunet_dro.doctor.rules import Finding


@dataclass(frozen=True)
class Recorded:
    """An experiment.

    Attributes:
        name: The folder of its runs in the work folder.
        title: What it is called in the table.
        page: Its page in docs/results.
        by: Column of the case table with the strata.
        outcome: What came out of it, in a few words.
        right: The findings that agree with it.
        left_out: Whether its numbers were not seen while the rules were made.
    """

    name: str
    title: str
    page: str
    by: str
    outcome: str
    right: tuple[Finding, ...]
    left_out: bool = False


EXPERIMENTS = (
    Recorded(
        "phantoms",
        "phantoms",
        "convergence.md",
        "pathology",
        "DRO helps: rare cerebellum from 64 to 73",
        (Finding.HARD,),
    ),
    Recorded(
        "label-noise-phantoms",
        "wrong labels",
        "label-noise.md",
        "pathology",
        "DRO harms, the first 20 suspects are wrong",
        (Finding.OUTLIERS,),
    ),
    Recorded(
        "hippocampus",
        "hippocampus",
        "convergence-hippocampus.md",
        "range",
        "nothing to gain, no stratum fails",
        (Finding.NOTHING_FAILS,),
        left_out=True,
    ),
)
