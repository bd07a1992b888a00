"""The experiments with nnU-Net of this repository, what came out of them, and which findings agree with it."""

from dataclasses import dataclass

from nnunet_dro.doctor.rules import Finding


@dataclass(frozen=True)
class Recorded:
    """An experiment.

    Attributes:
        name: The folder of its runs in the work folder.
        title: What it is called in the table.
        page: Its page in docs/results; empty if that is retired.
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
        "few-data-hippocampus",
        "few data",
        "",
        "range",
        "GI-LS harms; 8 cases",
        (Finding.CANNOT_TELL, Finding.NOT_CARRIED_OVER),
    ),
    Recorded(
        "few-phantoms",
        "few phantoms",
        "",
        "pathology",
        "DRO gains on some seeds, the others pay; 2 rare cases",
        (Finding.CANNOT_TELL, Finding.NOT_CARRIED_OVER),
        left_out=True,
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
