"""Pictures whose rare strata nobody made: they are rare in the data themselves."""

from dataclasses import dataclass
from pathlib import Path

from experiments.convergence.questions import Question, length
from experiments.datasets.pictures import training_numbers, write_pictures
from experiments.nnunet_runs.data import Data, Network
from experiments.record import render

#: Test cases of each stratum, and those of a smoke run, which trains on no more than some of each.
_N_TEST = (40, 2)
_AT_MOST = (None, 4)
#: A patch is a whole picture, or nearly so.
_PATCH = (64, 96)


@dataclass(frozen=True)
class Pictures:
    """A dataset of pictures with one label."""

    name: str  # Its name in names of folders and files.
    title: str  # The end of the page's heading.
    number: int  # nnU-Net's number of the divided dataset.
    label: str
    by: str  # Column of the strata.
    sizes: dict[str, int]  # Cases of each stratum, the largest first.
    rare: str  # The stratum that is rare.
    gaining: str  # What its gains are about.
    smaller: int  # How many times smaller height and width become.
    regrouped: tuple[str, str]  # What other strata are called, and their column.


HC18 = Pictures(
    name="hc18",
    title="fetal heads",
    number=926,
    label="head",
    by="trimester",
    sizes={"second": 565, "first": 132, "third": 109},
    rare="first",
    gaining="first trimester",
    smaller=4,
    regrouped=("zoom", "zoom"),
)
ISIC = Pictures(
    name="isic",
    title="skin lesions",
    number=927,
    label="lesion",
    by="diagnosis",
    sizes={"nevus": 656, "melanoma": 206, "seborrheic_keratosis": 138},
    rare="seborrheic_keratosis",
    gaining="seborrheic keratoses",
    smaller=2,
    regrouped=("age", "age_group"),
)


def strata_of_pictures(pictures: Pictures, data: Path, *, quick: bool) -> Question:
    """Pictures, divided anew for each seed; all that are not tested are trained on."""
    n_test = _N_TEST[quick]
    at_most = _AT_MOST[quick]
    train = training_numbers(pictures.sizes, n_test)
    if at_most is not None:
        train = dict.fromkeys(train, at_most)
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
        title=f"Strata that nobody made: {pictures.title}",
        about=render(
            "convergence/pictures",
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
