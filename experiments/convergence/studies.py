"""The data of the experiment, and what its page calls their strata."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.convergence.methods import LATE, PLAIN, PLAIN_GPU, TOLD
from experiments.convergence.training import QUICK
from experiments.curves.results import Roles
from experiments.datasets.division import FOLDS
from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.lesions import CENTRES, write_lesions
from experiments.datasets.nuclei import N_TEST, N_TRAIN, read_table, write_nuclei
from experiments.datasets.phantoms import FAINT_EVERY, SIZE, Counts, write_dataset, write_tail
from experiments.nnunet_runs.study import Network, Study
from experiments.record import render
from experiments.spoilt_labels.spoiling import SHARE, write_spoilt_phantoms

#: Times as long as the others to the end of the page's name and the words.
LENGTHS = {2: ("long", "twice as long"), 6: ("longest", "six times as long")}
#: The label of the mean over all labels of a case.
ALL_LABELS = "all labels"
#: Share of the cases whose labels are a little wrong, and the share of a label that erosion leaves.
PARTLY_WRONG_SHARE = 0.15
PARTLY_WRONG_KEPT = 0.6
#: The networks of volumes and of slices, and the seconds of their iterations.
_NETWORKS = (Network(), Network(parent="2d", batch_size=16))
_SECONDS = (0.06, 0.035)
_HIPPOCAMPUS_RARE = {"rescaled": 4, "8bit": 6}
_HIPPOCAMPUS_COMMON = {"train": 96, "validation": 2, "test": 32}
#: The patch is as nnU-Net plans it: almost every crop as a whole.
_HIPPOCAMPUS_PATCH = (40, 56, 40)
_HIPPOCAMPUS_FEATURES = (8, 16, 32, 64)


@dataclass(frozen=True)
class Question:
    """A study, and the words of its page."""

    study: Study  # Its ``settings`` have the training cases of each stratum under ``train``.
    iterations: int  # Length of the trainings.
    gaining: str  # What the gains are about, as "rare cerebellum".
    limits: str = "Phantoms"  # What the data are.
    #: What other strata are called by which the results are shown once more, and their column in
    #: the data.
    regrouped: tuple[str, str] = ("", "")
    #: The last part of the training, in which plain training hardly improves if it has converged.
    settling: float = 0.5
    #: Methods that were added after the results of the others were known.
    late: tuple[str, ...] = LATE
    #: Seconds of a processor core that an iteration takes with its share of the tests, about.
    seconds: float = 0.06
    #: Folds whose ensemble is tested, at the end alone; 0 for a network that sees all training
    #: cases.
    folds: int = 0
    #: Methods that were trained on a GPU, where the others were trained on a CPU.
    on_a_gpu: tuple[str, ...] = ()

    @property
    def roles(self) -> Roles:
        """What the methods and the strata are."""
        label = self.study.labels[0] if len(self.study.labels) == 1 else ALL_LABELS
        return Roles(
            PLAIN,
            TOLD,
            common=self.study.common,
            rare=self.study.rare,
            label=label,
            plain_elsewhere=dict.fromkeys(self.on_a_gpu, PLAIN_GPU),
        )

    @property
    def wrong_labels(self) -> bool:
        """Whether some of the training labels are wrong."""
        return bool(self.study.settings.get("wrong"))

    @property
    def n_train(self) -> dict[str, int]:
        """Training cases of each stratum."""
        return dict(self.study.settings["train"])


def phantoms(*, quick: bool, slices: bool = False, times: int = 1, wrong: bool = False) -> Question:
    """Phantoms with a rare pathology, trained on as volumes or as slices.

    Slices are nnU-Net's 2d configuration. On volumes, the training can be 2 or 6 ``times`` as long.
    With ``wrong``, three tenths of the training cases, none of them rare, have wrong labels, and
    the Dice is that of all labels.
    """
    counts = Counts({"control": 456, "common": 120, "rare": 24}, validation=4, test=40)
    iterations = 8000 * times
    if quick:
        counts = Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3)
        iterations = QUICK

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

    labels: tuple[str, ...] = ("cerebellum",)
    gaining = "rare cerebellum"
    late = LATE
    share = 0.0
    write: Callable[..., object] = write_dataset
    if wrong:
        name = f"{name}-wrong"
        words = f"{words}, wrong labels"
        labels = ("grey_matter", "white_matter", "cerebellum")
        gaining = "rare pathology"
        late = ()
        share = SHARE
        write = write_spoilt_phantoms

    train = dict(counts.train)
    study = Study(
        name=name,
        title=f"Speed or solution: {words}",
        dataset=dataset,
        by="pathology",
        rare=("rare",),
        common=("control", "common"),
        labels=labels,
        write=lambda folder, rng: write(folder, counts, rng=rng),
        settings={"train": train, "test": counts.test, "size": SIZE, "wrong": share},
        about=render(
            "convergence/phantoms",
            train=train,
            n_test=counts.test,
            wrong=share,
            volumes=not slices,
            long=times > 1,
        ),
        network=_NETWORKS[slices],
    )
    settling = 0.25 if times > 1 else 0.5
    return Question(
        study,
        iterations,
        gaining,
        settling=settling,
        late=late,
        seconds=_SECONDS[slices],
    )


def partly_wrong(*, quick: bool, kinds: Sequence[str] = ("eroded",)) -> Question:
    """Phantoms of which 15 in 100, none of them rare, have labels that are a little wrong.

    The labels of these are eroded, or eroded and dilated, to a Dice of 0.75 with the right ones.
    """
    counts = Counts({"control": 65, "common": 20, "rare": 15}, validation=4, test=20)
    iterations = 2000
    if quick:
        counts = Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3)
        iterations = QUICK

    words = " and ".join(kinds)
    train = dict(counts.train)
    study = Study(
        name=f"convergence-{'-'.join(kinds)}",
        title=f"Labels that are a little wrong: {words}",
        dataset=f"Dataset{922 + len(kinds)}_PhantomsPartlyWrong",
        by="pathology",
        rare=("rare",),
        common=("control", "common"),
        labels=("grey_matter", "white_matter", "cerebellum"),
        write=lambda folder, rng: write_spoilt_phantoms(
            folder,
            counts,
            share=PARTLY_WRONG_SHARE,
            kinds=kinds,
            kept=PARTLY_WRONG_KEPT,
            rng=rng,
        ),
        settings={
            "train": train,
            "test": counts.test,
            "size": SIZE,
            "wrong": PARTLY_WRONG_SHARE,
            "kinds": list(kinds),
        },
        about=render(
            "convergence/partly_wrong",
            train=train,
            n_test=counts.test,
            wrong=PARTLY_WRONG_SHARE,
            words=words,
        ),
    )
    return Question(study, iterations, "rare pathology", late=("DRO_earned",))


def tail(*, quick: bool) -> Question:
    """Phantoms of which few are faint, and ensembles of folds.

    There are as many of them as brains in Fidon et al. 2022, table 1.
    """
    train = {"control": 139, "other": 10, "rare": 28}
    test = {"control": 107, "other": 41, "rare": 112}
    iterations = 4000
    if quick:
        train = {"control": 6, "other": 2, "rare": 2}
        test = {"control": 3, "other": 3, "rare": 3}
        iterations = QUICK

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
        about=render(
            "convergence/tail",
            train=train,
            test=test,
            folds=FOLDS,
            iterations=iterations,
            faint_every=FAINT_EVERY,
        ),
    )
    return Question(study, iterations, "rare cerebellum", seconds=0.05, folds=FOLDS)


def lesions(*, quick: bool, slices: bool = False, wrong: bool = False) -> Question:
    """Phantoms with lesions, whose rare centres are not hard.

    Three tenths of the cases may have ``wrong`` labels.
    """
    counts = Counts({"a": 60, "b": 48, "c": 6, "d": 6}, validation=4, test=24)
    iterations = 2000
    if quick:
        counts = Counts({"a": 5, "b": 4, "c": 2, "d": 2}, validation=1, test=3)
        iterations = QUICK

    name = "convergence-lesions"
    words = "lesions as volumes"
    number = 916
    share = 0.0
    if slices:
        name += "-slices"
        words = "slices of lesions"
        number += 1
    if wrong:
        name += "-wrong"
        words += ", wrong labels"
        number += 2
        share = SHARE

    study = Study(
        name=name,
        title=f"Hard and not to be learnt: {words}",
        dataset=f"Dataset{number}_Lesions",
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
        network=_NETWORKS[slices],
    )
    return Question(
        study,
        iterations,
        "rare centres",
        late=("held_out",),
        seconds=_SECONDS[slices],
    )


def hippocampus(data: Path, *, quick: bool) -> Question:
    """The hippocampus in three conventions, two of them made rare in training.

    They are the ``intensity_range`` of its cases.
    """
    rare = _HIPPOCAMPUS_RARE
    common = _HIPPOCAMPUS_COMMON
    at_most = None
    iterations = 2500
    if quick:
        rare = {"rescaled": 2, "8bit": 2}
        common = {"train": 8, "validation": 1, "test": 3}
        at_most = 3
        iterations = QUICK

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
            "convergence/hippocampus",
            train=train,
            n_test=common["test"],
            patch=_HIPPOCAMPUS_PATCH,
            features=_HIPPOCAMPUS_FEATURES,
        ),
        network=Network(
            batch_size=2,
            patch_size=_HIPPOCAMPUS_PATCH,
            features=_HIPPOCAMPUS_FEATURES,
            n_convolutions=2,
        ),
    )
    return Question(
        study,
        iterations,
        "rare ranges",
        "One dataset",
        regrouped=("thirds of the volume", "volume_tertile"),
        seconds=0.37,
    )


def nuclei(data: Path, *, quick: bool) -> Question:
    """Microscopy images of nuclei, three of whose modalities are made rare in training."""
    n_test = N_TEST
    iterations = 8000
    if quick:
        n_test = dict.fromkeys(N_TEST, 2)
        iterations = QUICK

    def write(folder: Path, rng: np.random.Generator) -> None:
        write_nuclei(folder, data, read_table(data), n_test=n_test, rng=rng)

    study = Study(
        name="convergence-nuclei",
        title="Speed or solution: nuclei",
        dataset="Dataset915_Nuclei",
        by="modality",
        rare=tuple(N_TRAIN)[1:],
        common=tuple(N_TRAIN)[:1],
        labels=("nucleus",),
        write=write,
        settings={"train": dict(N_TRAIN), "test": n_test},
        about=render("convergence/nuclei", train=N_TRAIN, n_test=n_test),
        network=Network(parent="2d", batch_size=8, patch_size=(64, 64)),
    )
    return Question(
        study,
        iterations,
        "rare modalities",
        "One dataset",
        settling=0.25,
        seconds=0.09,
        on_a_gpu=("held_out", "IW_share0.5"),
    )
