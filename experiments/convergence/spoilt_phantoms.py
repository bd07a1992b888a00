"""Phantoms some of whose labels are a little wrong, or hopeless."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.convergence.questions import Question, length
from experiments.datasets.phantoms import SIZE, Counts
from experiments.nnunet_runs.data import Data
from experiments.record import render
from experiments.spoilt_labels.spoiling import write_spoilt_phantoms

#: Share of the cases whose labels are a little wrong, and the share of a label that erosion leaves.
SHARE = 0.15
_KEPT = 0.6
#: Share of the cases whose label map lies in another part of the image.
_HOPELESS_SHARE = 0.01
#: Numbers of phantoms, and those of a smoke run.
_COUNTS = (
    Counts({"control": 65, "common": 20, "rare": 15}, validation=4, test=20),
    Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3),
)


def partly_wrong(
    _: Path | None = None,
    *,
    quick: bool,
    kinds: Sequence[str] = ("eroded",),
    share: float = SHARE,
    foretold: bool = False,
) -> Question:
    """Phantoms of which a ``share``, none of them rare, has labels that are a little wrong.

    The labels of these are eroded, dilated, or some of them eroded and the others dilated, to a
    Dice of 0.75 with the right ones. The page prints what had been ``foretold``.
    """
    counts = _COUNTS[quick]
    words = " and ".join(kinds)
    percent = "" if share == SHARE else f" in {100 * share:g} of 100 cases"
    train = dict(counts.train)
    return Question(
        data=Data(
            dataset=f"Dataset{922 + len(kinds)}_PhantomsPartlyWrong",
            by="pathology",
            rare=("rare",),
            common=("control", "common"),
            labels=("grey_matter", "white_matter", "cerebellum"),
            write=lambda folder, rng: write_spoilt_phantoms(
                folder,
                counts,
                share=share,
                kinds=kinds,
                kept=_KEPT,
                rng=rng,
            ),
            settings={
                "train": train,
                "test": counts.test,
                "size": SIZE,
                "wrong": share,
                "kinds": list(kinds),
            },
        ),
        title=f"Labels that are a little wrong: {words}{percent}",
        about=render(
            "convergence/partly_wrong",
            train=train,
            n_test=counts.test,
            wrong=share,
            words=words,
            foretold=foretold,
        ),
        iterations=length(2000, quick=quick),
        gaining="rare pathology",
        late=("DRO_earned",),
    )


def hopeless(_: Path | None = None, *, quick: bool) -> Question:
    """The same phantoms, of which one in 100 has its labels in another part of the image."""
    asked = partly_wrong(quick=quick, kinds=("misplaced",), share=_HOPELESS_SHARE)
    about = render(
        "convergence/hopeless",
        train=asked.n_train,
        n_test=asked.data.settings["test"],
        wrong=_HOPELESS_SHARE,
    )
    # Not "wrong", so that the limits of the rule are those for right labels.
    settings = {**asked.data.settings, "wrong": 0.0, "misplaced": _HOPELESS_SHARE}
    data = replace(asked.data, settings=settings)
    return replace(asked, data=data, title="One hopeless case in a hundred", about=about)
