"""The data of the experiment, and what its page calls their strata."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.convergence.training import QUICK
from experiments.curves.results import Roles
from experiments.datasets.division import FOLDS, HELD_OUT, SHUFFLED
from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.lesions import CENTRES, write_lesions
from experiments.datasets.nuclei import N_TEST, N_TRAIN, read_table, write_nuclei
from experiments.datasets.phantoms import FAINT_EVERY, SIZE, Counts, write_dataset, write_tail
from experiments.nnunet_runs.study import Study
from experiments.record import render
from experiments.spoilt_labels.spoiling import SHARE, write_spoilt_phantoms

#: The method that the others are compared with, and the one that is told the strata.
PLAIN = "plain"
TOLD = "IW"
#: Method to the trainer's name without its length; ``{by}`` is the column of the case table that
#: has the strata.
METHODS = {
    PLAIN: "nnUNetTrainerHWS_beta0",
    "DRO": "nnUNetTrainerDRO_share0.5",
    TOLD: "nnUNetTrainerIW_{by}",
    "DRO_earned": "nnUNetTrainerDRO",
    "DRO_IS": "nnUNetTrainerDRO_share0.5_IS",
    "DRO_explore0.3": "nnUNetTrainerDRO_share0.5_explore0.3",
    "cvar0.1": "nnUNetTrainerHWS_cvar0.1",
    "GroupDRO": "nnUNetTrainerGroupDRO_{by}",
    "paper": "nnUNetTrainerHWS",
    "beta100": "nnUNetTrainerHWS_noIS",
    "beta10_IS": "nnUNetTrainerHWS_beta10",
    "beta10": "nnUNetTrainerHWS_beta10_noIS",
    "IW_power0.15": "nnUNetTrainerIW_{by}_power0.15",
    "IW_power0.25": "nnUNetTrainerIW_{by}_power0.25",
    "IW_power0.75": "nnUNetTrainerIW_{by}_power0.75",
    "IW_share0.5": "nnUNetTrainerIW_{by}_share0.5",
    "IW_shuffled": f"nnUNetTrainerIW_{SHUFFLED}",
    "held_out": f"nnUNetTrainerIW_{HELD_OUT}_asWeights",
    # Plain training once more, where some were trained on another machine than the others.
    "plain_GPU": "nnUNetTrainerHWS_beta0",
}
#: Added when the results of the others were known.
LATE = tuple(method for method in METHODS if method not in (PLAIN, "DRO", TOLD))
#: Times as long as the others to the end of the page's name and the words.
LENGTHS = {2: ("long", "twice as long"), 6: ("longest", "six times as long")}
#: The label of the mean over all labels of a case.
ALL_LABELS = "all labels"
#: What slices change, and the seconds of an iteration on volumes and on slices.
_SLICES: dict[str, Any] = {"parent": "2d", "batch_size": 16}
_SECONDS = (0.06, 0.035)
_HIPPOCAMPUS_RARE = {"rescaled": 4, "8bit": 6}
_HIPPOCAMPUS_COMMON = {"train": 96, "validation": 2, "test": 32}
#: The patch is as nnU-Net plans it: almost every crop as a whole.
_HIPPOCAMPUS_NETWORK = {"patch": (40, 56, 40), "features": (8, 16, 32, 64)}


@dataclass(frozen=True)
class Question:
    """A study, and the words of its page."""

    study: Study  # Its ``settings`` have the training cases of each stratum under ``train``.
    iterations: int  # Length of the trainings.
    gaining: str  # What the gains are about, as "rare cerebellum".
    limits: str = "Phantoms"  # What the data are.
    # What other strata are called by which the results are shown once more, and their column in the
    # data.
    regrouped: tuple[str, str] = ("", "")
    settling: float = 0.5  # The last part of the training, in which plain training hardly improves if it has converged.
    late: tuple[str, ...] = (
        LATE  # Methods that were added after the results of the others were known.
    )
    seconds: float = 0.06  # Seconds of a processor core that an iteration takes with its share of the tests, about.
    folds: int = 0  # Folds whose ensemble is tested, at the end alone; 0 for a network that sees all training cases.

    @property
    def roles(self) -> Roles:
        """What the methods and the strata are."""
        label = self.study.labels[0] if len(self.study.labels) == 1 else ALL_LABELS
        return Roles(PLAIN, TOLD, common=self.study.common, rare=self.study.rare, label=label)

    @property
    def wrong_labels(self) -> bool:
        """Whether some of the training labels are wrong."""
        return bool(self.study.settings.get("wrong"))

    @property
    def n_train(self) -> dict[str, int]:
        """Training cases of each stratum."""
        return dict(self.study.settings["train"])


def phantoms(*, quick: bool, slices: bool = False, times: int = 1, wrong: bool = False) -> Question:
    """Phantoms with a rare pathology, trained on as volumes or (nnU-Net's 2d configuration) as slices.

    On volumes, the training can be 2 or 6 ``times`` as long. With ``wrong``, three tenths of the
    training cases, none of them rare, have wrong labels, and the Dice is that of all labels.
    """
    counts = Counts({"control": 456, "common": 120, "rare": 24}, validation=4, test=40)
    if quick:
        counts = Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3)

    train = dict(counts.train)
    name = "convergence"
    words = "phantoms"
    dataset = "Dataset910_Phantoms"
    if slices:
        name = "convergence-slices"
        words = "slices of phantoms"
        dataset = "Dataset911_PhantomSlices"
    elif times > 1:
        name = f"convergence-{LENGTHS[times][0]}"
        words = f"phantoms, {LENGTHS[times][1]}"
    if wrong:
        name = f"{name}-wrong"
        words = f"{words}, wrong labels"
    share = SHARE if wrong else 0.0
    study = Study(
        name=name,
        title=f"Speed or solution: {words}",
        dataset=dataset,
        by="pathology",
        rare=("rare",),
        common=("control", "common"),
        labels=("grey_matter", "white_matter", "cerebellum") if wrong else ("cerebellum",),
        write=lambda folder, rng: (write_spoilt_phantoms if wrong else write_dataset)(
            folder, counts, rng=rng
        ),
        settings={"train": train, "test": counts.test, "size": SIZE, "wrong": share},
        about=render(
            "convergence/phantoms",
            train=train,
            n_test=counts.test,
            wrong=share,
            volumes=not slices,
            long=times > 1,
        ),
        **(_SLICES if slices else {}),
    )
    iterations = QUICK if quick else 8000 * times
    gaining, late = ("rare pathology", ()) if wrong else ("rare cerebellum", LATE)
    seconds = _SECONDS[slices]
    return Question(
        study, iterations, gaining, settling=0.25 if times > 1 else 0.5, late=late, seconds=seconds
    )


def tail(*, quick: bool) -> Question:
    """Phantoms as many as the brains of Fidon et al.

    2022, table 1, few of which are faint, and ensembles of folds.
    """
    train = {"control": 139, "other": 10, "rare": 28}
    test = {"control": 107, "other": 41, "rare": 112}
    if quick:
        train = {"control": 6, "other": 2, "rare": 2}
        test = {"control": 3, "other": 3, "rare": 3}
    folds = FOLDS
    iterations = QUICK if quick else 4000
    about = {
        "train": train,
        "test": test,
        "folds": folds,
        "iterations": iterations,
        "faint_every": FAINT_EVERY,
    }
    study = Study(
        name="convergence-tail",
        title="A tail: phantoms of which few are faint",
        dataset="Dataset921_PhantomTail",
        by="pathology",
        rare=("rare",),
        common=("control", "other"),
        labels=("cerebellum",),
        write=lambda folder, rng: write_tail(folder, train, test, rng=rng),
        settings={"train": train, "test": test},
        about=render("convergence/tail", **about),
    )
    return Question(study, iterations, "rare cerebellum", seconds=0.05, folds=folds)


def lesions(*, quick: bool, slices: bool = False, wrong: bool = False) -> Question:
    """Phantoms with lesions, whose rare centres are not hard.

    Three tenths of the cases may have ``wrong`` labels.
    """
    counts = Counts({"a": 60, "b": 48, "c": 6, "d": 6}, validation=4, test=24)
    if quick:
        counts = Counts({"a": 5, "b": 4, "c": 2, "d": 2}, validation=1, test=3)
    share = SHARE if wrong else 0.0

    kind = f"{'slices of lesions' if slices else 'lesions as volumes'}{', wrong labels' if wrong else ''}"
    study = Study(
        name=f"convergence-lesions{'-slices' if slices else ''}{'-wrong' if wrong else ''}",
        title=f"Hard and not to be learnt: {kind}",
        dataset=f"Dataset{916 + slices + 2 * wrong}_Lesions",
        by="centre",
        rare=CENTRES[2:],
        common=CENTRES[:2],
        labels=("lesion",),
        write=lambda folder, rng: write_lesions(folder, counts, wrong=share, rng=rng),
        settings={"train": dict(counts.train), "test": counts.test, "wrong": share, "size": SIZE},
        about=render(
            "convergence/lesions",
            train=counts.train,
            n_test=counts.test,
            size=SIZE,
            wrong=share,
            slices=slices,
        ),
        **(_SLICES if slices else {}),
    )
    return Question(
        study,
        QUICK if quick else 2000,
        "rare centres",
        late=("held_out",),
        seconds=_SECONDS[slices],
    )


def hippocampus(data: Path, *, quick: bool) -> Question:
    """The hippocampus in three conventions (``intensity_range`` of its cases), two of them made rare in training."""
    rare = {"rescaled": 2, "8bit": 2} if quick else _HIPPOCAMPUS_RARE
    common = {"train": 8, "validation": 1, "test": 3} if quick else _HIPPOCAMPUS_COMMON
    at_most = 3 if quick else None

    def write(folder: Path, rng: np.random.Generator) -> None:
        ranges = read_hippocampus(data, rare=rare, common=common)
        write_hippocampus(folder, data, ranges, rare=rare, common=common, at_most=at_most, rng=rng)

    train = {"raw": common["train"], **rare}
    study = Study(
        name="convergence-hippocampus",
        title="Speed or solution: hippocampus",
        dataset="Dataset914_Hippocampus",
        by="range",
        rare=tuple(rare),
        common=("raw",),
        labels=("anterior", "posterior"),
        write=write,
        settings={"train": train, "test_at_most": at_most},
        about=render(
            "convergence/hippocampus", train=train, n_test=common["test"], **_HIPPOCAMPUS_NETWORK
        ),
        batch_size=2,
        patch_size=_HIPPOCAMPUS_NETWORK["patch"],
        features=_HIPPOCAMPUS_NETWORK["features"],
        n_convolutions=2,
    )
    words = ("rare ranges", "One dataset", ("thirds of the volume", "volume_tertile"))
    return Question(study, QUICK if quick else 2500, *words, seconds=0.37)


def nuclei(data: Path, *, quick: bool) -> Question:
    """Microscopy images of nuclei, three of whose modalities (``modality`` of its cases) are made rare in training."""
    n_test = dict.fromkeys(N_TEST, 2) if quick else N_TEST

    study = Study(
        name="convergence-nuclei",
        title="Speed or solution: nuclei",
        dataset="Dataset915_Nuclei",
        by="modality",
        rare=tuple(N_TRAIN)[1:],
        common=tuple(N_TRAIN)[:1],
        labels=("nucleus",),
        write=lambda folder, rng: write_nuclei(
            folder, data, read_table(data), n_test=n_test, rng=rng
        ),
        settings={"train": dict(N_TRAIN), "test": n_test},
        about=render("convergence/nuclei", train=N_TRAIN, n_test=n_test),
        parent="2d",
        batch_size=8,
        patch_size=(64, 64),
    )
    return Question(
        study,
        QUICK if quick else 8000,
        "rare modalities",
        "One dataset",
        settling=0.25,
        seconds=0.09,
    )


#: What the page's name ends with to a function of the folder of the data, which phantoms do not
#: need, and `quick`.
QUESTIONS: dict[str, Callable[..., Question]] = {
    "": lambda _, quick: phantoms(quick=quick),
    "-long": lambda _, quick: phantoms(quick=quick, times=2),
    "-longest": lambda _, quick: phantoms(quick=quick, times=6),
    "-tail": lambda _, quick: tail(quick=quick),
    "-slices": lambda _, quick: phantoms(quick=quick, slices=True),
    "-slices-wrong": lambda _, quick: phantoms(quick=quick, slices=True, wrong=True),
    "-lesions": lambda _, quick: lesions(quick=quick),
    "-lesions-slices": lambda _, quick: lesions(quick=quick, slices=True),
    "-lesions-wrong": lambda _, quick: lesions(quick=quick, wrong=True),
    "-lesions-slices-wrong": lambda _, quick: lesions(quick=quick, slices=True, wrong=True),
    "-hippocampus": hippocampus,
    "-nuclei": nuclei,
}
#: Those with real data.
REAL = {"-hippocampus": "The hippocampus data", "-nuclei": "The dataset of nuclei"}
