"""Pictures whose rare strata nobody made, and pictures of two cameras.

The former are rare in the data themselves; the rare camera is thinned.
"""

from dataclasses import dataclass
from pathlib import Path

from experiments.convergence.questions import Question, length
from experiments.datasets.pictures import training_numbers, write_pictures
from experiments.nnunet_runs.data import Data, Network
from experiments.record import render

#: Of a smoke run, test cases of each stratum, and training cases at most.
_N_TEST_QUICK = 2
_AT_MOST_QUICK = 4
#: A patch is a whole picture, or nearly so.
_PATCH = (64, 96)


@dataclass(frozen=True)
class Pictures:
    """A dataset of pictures with one label."""

    name: str  # Its name in names of folders and files.
    title: str  # The page's heading.
    number: int  # nnU-Net's number of the divided dataset.
    label: str
    by: str  # Column of the strata.
    sizes: dict[str, int]  # Cases of each stratum, the largest first.
    rare: str  # The stratum that is rare.
    gaining: str  # What its gains are about.
    smaller: int  # How many times smaller height and width become.
    regrouped: tuple[str, str]  # What other strata are called, and their column.
    n_test: int = 40  # Test cases of each stratum.
    #: The largest numbers of training cases, where strata are thinned.
    thinned: dict[str, int] | None = None
    page: str = "pictures"  # Template of what its page says of the data.


HC18 = Pictures(
    name="hc18",
    title="Strata that nobody made: fetal heads",
    number=926,
    label="head",
    by="trimester",
    sizes={"second": 565, "first": 132, "third": 109},
    rare="first",
    gaining="first trimester",
    smaller=4,
    regrouped=("thirds of the pixel size", "zoom"),
)
ISIC = Pictures(
    name="isic",
    title="Strata that nobody made: skin lesions",
    number=927,
    label="lesion",
    by="diagnosis",
    sizes={"nevus": 656, "melanoma": 206, "seborrheic_keratosis": 138},
    rare="seborrheic_keratosis",
    gaining="seborrheic keratoses",
    smaller=2,
    regrouped=("age", "age_group"),
)
#: Their names are the size of the pictures that they took.
CAMERAS = Pictures(
    name="isic-cameras",
    title="A shift of the camera: skin lesions",
    number=928,
    label="lesion",
    by="acquisition",
    sizes={"1024x768": 237, "4288x2848": 219},
    rare="4288x2848",
    gaining="rare camera",
    smaller=2,
    regrouped=("diagnoses", "diagnosis"),
    n_test=90,
    thinned={"1024x768": 120, "4288x2848": 6},
    page="cameras",
)


def strata_of_pictures(pictures: Pictures, data: Path, *, quick: bool) -> Question:
    """Pictures, divided anew for each seed; without thinning, all others are trained on."""
    n_test = pictures.n_test
    at_most = pictures.thinned
    if quick:
        n_test = _N_TEST_QUICK
        at_most = dict.fromkeys(pictures.sizes, _AT_MOST_QUICK)
    train = at_most or training_numbers(pictures.sizes, n_test)
    return Question(
        data=Data(
            dataset=f"Dataset{pictures.number}_Pictures",
            by=pictures.by,
            rare=(pictures.rare,),
            common=tuple(stratum for stratum in pictures.sizes if stratum != pictures.rare),
            labels=(pictures.label,),
            write=lambda folder, rng: write_pictures(
                folder,
                data,
                pictures.by,
                n_test=n_test,
                smaller=pictures.smaller,
                at_most=at_most,
                rng=rng,
            ),
            settings={"train": train, "test": n_test, "smaller": pictures.smaller},
            network=Network(parent="2d", batch_size=8, patch_size=_PATCH),
        ),
        title=pictures.title,
        about=render(
            f"convergence/{pictures.page}",
            name=pictures.name,
            train=train,
            n_test=n_test,
            smaller=pictures.smaller,
            patch=_PATCH,
            rare=pictures.rare,
        ),
        iterations=length(2000, quick=quick),
        gaining=pictures.gaining,
        regrouped=pictures.regrouped,
        late=(),
        seconds=0.13,
    )
