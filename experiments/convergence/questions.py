"""What is asked of which data, and what its page calls their strata."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from experiments.convergence.methods import (
    DEFAULT,
    DOUBLE_BATCH,
    LATE,
    PLAIN,
    PLAIN_AGAIN,
    PLAIN_GPU,
    TOLD,
)
from experiments.convergence.training import QUICK
from experiments.curves.results import Roles
from experiments.datasets.division import FOLDS
from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.lesions import CENTRES, write_lesions
from experiments.datasets.nuclei import N_TEST, N_TRAIN, read_table, write_nuclei
from experiments.datasets.phantoms import FAINT_EVERY, SIZE, Counts, write_dataset, write_tail
from experiments.nnunet_runs.data import Data, Network
from experiments.record import render
from experiments.spoilt_labels.spoiling import SHARE, write_spoilt_phantoms

#: The label of the mean over all labels of a case.
ALL_LABELS = "all labels"
#: The networks of volumes and of slices, and the seconds of their iterations.
_NETWORKS = (Network(), Network(parent="2d", batch_size=16))
_SECONDS = (0.06, 0.035)
#: Times as long as the others to the words of the title.
_LENGTHS = {1: "", 2: ", twice as long", 6: ", six times as long"}
#: Numbers of cases, and those of a smoke run: of phantoms, a tail in training and test, lesions.
_PHANTOMS = (
    Counts({"control": 456, "common": 120, "rare": 24}, validation=4, test=40),
    Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3),
)
_TAIL = (
    ({"control": 139, "other": 10, "rare": 28}, {"control": 107, "other": 41, "rare": 112}),
    ({"control": 6, "other": 2, "rare": 2}, {"control": 3, "other": 3, "rare": 3}),
)
_LESIONS = (
    Counts({"a": 60, "b": 48, "c": 6, "d": 6}, validation=4, test=24),
    Counts({"a": 5, "b": 4, "c": 2, "d": 2}, validation=1, test=3),
)
#: Of the hippocampus the training cases of the rare ranges, the cases of the common one, and the
#: largest number of test cases of a rare one; and those of a smoke run.
_HIPPOCAMPUS: tuple[tuple[dict[str, int], dict[str, int], int | None], ...] = (
    ({"rescaled": 4, "8bit": 6}, {"train": 96, "validation": 2, "test": 32}, None),
    ({"rescaled": 2, "8bit": 2}, {"train": 8, "validation": 1, "test": 3}, 3),
)
#: The patch is as nnU-Net plans it: almost every crop as a whole.
_HIPPOCAMPUS_PATCH = (40, 56, 40)
_HIPPOCAMPUS_FEATURES = (8, 16, 32, 64)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of some data, and the words of its page."""

    data: Data  # Its ``settings`` have the training cases of each stratum under ``train``.
    title: str  # Heading of the page.
    about: str  # The page's paragraphs on the data, markdown.
    iterations: int  # Length of the trainings.
    gaining: str  # What the gains are about, as "rare cerebellum".
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
    #: Methods that were trained on another machine than the others, to plain training there.
    plain_elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def roles(self) -> Roles:
        """What the methods and the strata are."""
        label = self.data.labels[0] if len(self.data.labels) == 1 else ALL_LABELS
        return Roles(
            PLAIN,
            TOLD,
            common=self.data.common,
            rare=self.data.rare,
            label=label,
            plain_elsewhere=self.plain_elsewhere,
        )

    def batch_size(self, method: str) -> int:
        """Cases, or slices, in a batch of a method."""
        return self.data.network.batch_size * (2 if method in DOUBLE_BATCH else 1)

    @property
    def wrong_labels(self) -> bool:
        """Whether some of the training labels are wrong."""
        return bool(self.data.settings.get("wrong"))

    @property
    def n_train(self) -> dict[str, int]:
        """Training cases of each stratum."""
        return dict(self.data.settings["train"])


def length(iterations: int, *, quick: bool) -> int:
    """The length of a training, or that of a smoke run."""
    return QUICK if quick else iterations


def phantoms(
    _: Path | None = None,
    *,
    quick: bool,
    slices: bool = False,
    times: int = 1,
    wrong: bool = False,
) -> Question:
    """Phantoms with a rare pathology, trained on as volumes or as slices.

    Slices are nnU-Net's 2d configuration. On volumes, the training can be 2 or 6 ``times`` as long.
    With ``wrong``, three tenths of the training cases, none of them rare, have wrong labels, and
    the Dice is that of all labels.
    """
    counts = _PHANTOMS[quick]
    words = f"phantoms{_LENGTHS[times]}"
    dataset = "Dataset910_Phantoms"
    if slices:
        words = "slices of phantoms"
        dataset = "Dataset911_PhantomSlices"

    labels: tuple[str, ...] = ("cerebellum",)
    gaining = "rare cerebellum"
    late = LATE
    share = 0.0
    write: Callable[..., object] = write_dataset
    if wrong:
        words += ", wrong labels"
        labels = ("grey_matter", "white_matter", "cerebellum")
        gaining = "rare pathology"
        late = ()
        share = SHARE
        write = write_spoilt_phantoms

    train = dict(counts.train)
    return Question(
        data=Data(
            dataset=dataset,
            by="pathology",
            rare=("rare",),
            common=("control", "common"),
            labels=labels,
            write=lambda folder, rng: write(folder, counts, rng=rng),
            settings={"train": train, "test": counts.test, "size": SIZE, "wrong": share},
            network=_NETWORKS[slices],
        ),
        title=f"Speed or solution: {words}",
        about=render(
            "convergence/phantoms",
            train=train,
            n_test=counts.test,
            wrong=share,
            volumes=not slices,
            times=times,
        ),
        iterations=length(8000 * times, quick=quick),
        gaining=gaining,
        settling=(0.5, 0.25)[times > 1],
        late=late,
        seconds=_SECONDS[slices],
    )


def tail(_: Path | None = None, *, quick: bool) -> Question:
    """Phantoms of which few are faint, and ensembles of folds.

    There are as many of them as brains in Fidon et al. 2022, table 1.
    """
    train, test = _TAIL[quick]
    iterations = length(4000, quick=quick)
    return Question(
        data=Data(
            dataset="Dataset921_PhantomTail",
            by="pathology",
            rare=("rare",),
            common=("control", "other"),
            labels=("cerebellum",),
            write=lambda folder, rng: write_tail(folder, train, test, rng=rng),
            settings={"train": train, "test": test},
        ),
        title="A tail: phantoms of which few are faint",
        about=render(
            "convergence/tail",
            train=train,
            test=test,
            folds=FOLDS,
            iterations=iterations,
            faint_every=FAINT_EVERY,
        ),
        iterations=iterations,
        gaining="rare cerebellum",
        seconds=0.05,
        folds=FOLDS,
    )


def lesions(
    _: Path | None = None, *, quick: bool, slices: bool = False, wrong: bool = False
) -> Question:
    """Phantoms with lesions, whose rare centres are not hard.

    Three tenths of the cases may have ``wrong`` labels.
    """
    counts = _LESIONS[quick]
    words = ("lesions as volumes", "slices of lesions")[slices]
    share = 0.0
    if wrong:
        words += ", wrong labels"
        share = SHARE
    plain_elsewhere = {} if slices else {DEFAULT: PLAIN_AGAIN}

    train = dict(counts.train)
    return Question(
        data=Data(
            dataset=f"Dataset{916 + slices + 2 * wrong}_Lesions",
            by="centre",
            rare=CENTRES[2:],
            common=CENTRES[:2],
            labels=("lesion",),
            write=lambda folder, rng: write_lesions(folder, counts, wrong=share, rng=rng),
            settings={"train": train, "test": counts.test, "wrong": share, "size": SIZE},
            network=_NETWORKS[slices],
        ),
        title=f"Hard and not to be learnt: {words}",
        about=render(
            "convergence/lesions",
            train=train,
            n_test=counts.test,
            size=SIZE,
            wrong=share,
            slices=slices,
        ),
        iterations=length(2000, quick=quick),
        gaining="rare centres",
        late=("held_out",),
        plain_elsewhere=plain_elsewhere,
        seconds=_SECONDS[slices],
    )


def hippocampus(data: Path, *, quick: bool) -> Question:
    """The hippocampus in three conventions, two of them made rare in training.

    They are the ``intensity_range`` of its cases.
    """
    rare, common, at_most = _HIPPOCAMPUS[quick]
    train = {"raw": common["train"], **rare}
    return Question(
        data=Data(
            dataset="Dataset914_Hippocampus",
            by="range",
            rare=tuple(rare),
            common=("raw",),
            labels=("anterior", "posterior"),
            write=lambda folder, rng: write_hippocampus(
                folder,
                data,
                read_hippocampus(data, rare=rare, common=common),
                rare=rare,
                common=common,
                at_most=at_most,
                rng=rng,
            ),
            settings={"train": train, "test_at_most": at_most},
            network=Network(
                batch_size=2,
                patch_size=_HIPPOCAMPUS_PATCH,
                features=_HIPPOCAMPUS_FEATURES,
                n_convolutions=2,
            ),
        ),
        title="Speed or solution: hippocampus",
        about=render(
            "convergence/hippocampus",
            train=train,
            n_test=common["test"],
            patch=_HIPPOCAMPUS_PATCH,
            features=_HIPPOCAMPUS_FEATURES,
        ),
        iterations=length(2500, quick=quick),
        gaining="rare ranges",
        regrouped=("thirds of the volume", "volume_tertile"),
        seconds=0.37,
    )


def nuclei(data: Path, *, quick: bool) -> Question:
    """Microscopy images of nuclei, three of whose modalities are made rare in training."""
    n_test = (N_TEST, dict.fromkeys(N_TEST, 2))[quick]
    return Question(
        data=Data(
            dataset="Dataset915_Nuclei",
            by="modality",
            rare=tuple(N_TRAIN)[1:],
            common=tuple(N_TRAIN)[:1],
            labels=("nucleus",),
            write=lambda folder, rng: write_nuclei(
                folder, data, read_table(data), n_test=n_test, rng=rng
            ),
            settings={"train": dict(N_TRAIN), "test": n_test},
            network=Network(parent="2d", batch_size=8, patch_size=(64, 64)),
        ),
        title="Speed or solution: nuclei",
        about=render("convergence/nuclei", train=N_TRAIN, n_test=n_test),
        iterations=length(8000, quick=quick),
        gaining="rare modalities",
        settling=0.25,
        seconds=0.09,
        plain_elsewhere=dict.fromkeys(("held_out", "IW_share0.5"), PLAIN_GPU),
    )


def fresh(
    question: Callable[..., Question],
    data: Path | None = None,
    *,
    quick: bool,
    is_real: bool,
    gains: bool = True,
) -> Question:
    """The same question once more, of seeds that were not known when the default was chosen.

    ``gains`` says whether the default gained on the seeds that were known.
    """
    asked = question(data, quick=quick)
    return replace(
        asked,
        title=f"{asked.title}, fresh trainings",
        about=render("convergence/fresh", is_real=is_real, gains=gains),
        late=(),
    )
