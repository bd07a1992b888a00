"""Which images of a dataset look rare, before anything is trained: a table and a picture."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from joblib import cpu_count
from rich.console import RenderableType

from nnunet_dro.bad_input import check_folder
from nnunet_dro.files.output_folder import check_writable
from nnunet_dro.fingerprints import KINDS, kinds_in_words
from nnunet_dro.inspection.training import read_strata
from nnunet_dro.naming import count, name_some, plain
from nnunet_dro.nnunet.folders import plans_option, read_if_usable, settings_of
from nnunet_dro.nnunet.training import Target, find_target
from nnunet_dro.pages.document import Column, Heading, Prose, Table
from nnunet_dro.pages.pictures import grey_levels
from nnunet_dro.pages.svg import shortened
from nnunet_dro.pages.terminal import printed
from nnunet_dro.sampling.cap import LEAST_CASES_OF_A_KIND, is_of_rare_kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The trainer that draws rare kinds of images more often.
RARE_TRAINER = "nnUNetTrainerDRO"

#: How many of the rarest images the picture shows, beside as many ordinary ones.
N_SHOWN = 6

#: Longest name of a case that fits above its picture.
_LONGEST_NAME = 22


@dataclass(frozen=True, eq=False)
class RareImages:
    """The cases of a dataset, those of rare kinds of images first, and each by rarity.

    Attributes:
        target: The dataset and its configuration.
        table: A row per case: ``case``, ``rarity`` (1 on average), the columns of `KINDS` (0 for
            the largest kind of images), and columns of the case table.
    """

    target: Target
    table: pd.DataFrame

    @property
    def rarest(self) -> pd.DataFrame:
        """The rows of the picture."""
        return self.table.head(N_SHOWN)

    @property
    def ordinary(self) -> pd.DataFrame:
        """As many rows of the other cases, evenly spaced among those that look like most."""
        others = self.table.iloc[len(self.rarest) :]
        common = others.tail(max(N_SHOWN, len(others) - len(others) // 2))
        places = np.linspace(0, len(common) - 1, min(N_SHOWN, len(common)))
        return common.iloc[np.unique(places.round().astype(int))]


def find_rare_images(
    dataset: str,
    configuration: str,
    output: Path | None = None,
    *,
    plans: str,
    cases: Path | None = None,
    by: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
    report: Callable[[str], None] = lambda line: None,
) -> tuple[RareImages, Path]:
    """Look at the preprocessed images of a dataset, and write who looks rare.

    Args:
        dataset: Name or number of the dataset.
        configuration: The configuration whose images are looked at.
        output: Folder of the table and the picture; default: that of the dataset in
            nnUNet_preprocessed.
        plans: Name of the plans.
        cases: The case table; default: that of the dataset.
        by: Its columns that the table shows; default: all that divide the cases.
        progress: Called with the numbers of images that were looked at and of all.
        report: Called with sentences on what is done.

    Returns:
        The cases, and the path of the picture ``..._rarity.png``; ``..._rarity.csv`` is beside it.

    Raises:
        FileNotFoundError: If the dataset is not preprocessed.
        ValueError: If a name is wrong, or an image cannot be read.
    """
    target = find_target(dataset, configuration, "all", plans=plans)
    where = output or target.preprocessed
    check_writable(where, name="output", cure="Name another folder with --output.")

    # nnU-Net takes seconds to import, so wrong names are refused before.
    from nnunet_dro.trainers.data.image_rarity import image_rarity, rarest_first, write_rarity
    from nnunet_dro.trainers.log.case_curves import save_picture

    preprocessed = _preprocessed_cases(target)
    names = sorted(preprocessed.identifiers)
    strata, _ = read_strata(target.preprocessed, names, [], table=cases, by=by, report=report)

    table = image_rarity(preprocessed, names, log=report, jobs=cpu_count(), progress=progress)
    suffixes = ("", " (case table)")
    table = table.merge(strata, left_on="case", right_index=True, suffixes=suffixes)
    images = RareImages(target, rarest_first(table))

    where.mkdir(parents=True, exist_ok=True)
    stem = Path(preprocessed.source_folder).name
    picture = where / f"{stem}_rarity.png"
    write_rarity(table, where / f"{stem}_rarity.csv")
    save_picture(picture, _draw, images, preprocessed)
    return images, picture


def rare_images_lines(images: RareImages) -> RenderableType:
    """The cases of `RareImages.rarest`, and what to do, for rich's console.

    Names from files are shown as they are.
    """
    rarest = images.rarest
    entries = [str(column) for column in rarest.columns[2 + len(KINDS) :]]
    columns: list[Any] = [
        (Column("Case", "name"), itemgetter("case")),
        (Column("Rarity"), lambda row: f"{row['rarity']:.2g}"),
        (Column("Kinds"), lambda row: ", ".join(str(row[column]) for column in KINDS)),
        *((Column(name, "text", spare="column"), itemgetter(name)) for name in entries),
    ]
    title = f"{len(rarest)} of {count(len(images.table), 'image')}, rare kinds first"
    table = Table.of(title, columns, rarest.to_dict("records"))

    return printed(
        [
            Heading("Images that look like few others"),
            *_advice(images),
            table,
            Prose(
                "Rarity is the inverse density of what the preprocessed images look like, 1 on "
                "average. Images are of one kind if their looks differ by degrees; the first "
                "number is the kind by intensities, the second by details, and kind 0 has most "
                "images. Neither sees a rare anatomy in an ordinary image."
            ),
        ]
    )


def _advice(images: RareImages) -> list[Prose]:
    """What the kinds of images are, and how rare ones are drawn more often."""
    kinds = images.table[list(KINDS)]
    if not kinds.to_numpy().any():
        return [
            Prose(
                "The images are of one kind: none can be drawn more often for what it looks like.",
                kind="",
            )
        ]

    told = f"Kinds of images: {kinds_in_words(kinds, 'image')}."
    if not is_of_rare_kind(kinds).any():
        none = (
            f"No rare kind has {LEAST_CASES_OF_A_KIND} images or more, so that a training draws "
            "none of them more often."
        )
        return [Prose(f"{told} {none}", kind="")]

    target = images.target
    plans = plans_option(target.plans)
    train = f"nnUNetv2_train {target.dataset} {target.configuration} 0 -tr {RARE_TRAINER}{plans}"
    return [
        Prose(
            f"{told} Look at the picture first: an image may also look rare because it is broken. "
            "What belongs to the task can be drawn more often in a training:",
            kind="",
        ),
        Prose(train, kind="command"),
    ]


def _preprocessed_cases(target: Target) -> Any:
    """nnU-Net's dataset of all preprocessed cases of a configuration."""
    plans = read_if_usable(target.preprocessed / f"{target.plans}.json") or {}
    settings = settings_of(plans, target.configuration)
    usual_name = f"{target.plans}_{target.configuration}"
    folder = target.preprocessed / str(settings.get("data_identifier", usual_name))

    cure = f"Run nnUNetv2_preprocess -d {target.dataset} -c {target.configuration}"
    if target.plans != "nnUNetPlans":
        cure += f" -plans_name {target.plans}"
    check_folder("dataset", folder, f"{cure}.", must="be preprocessed")

    from nnunetv2.training.dataloading.nnunet_dataset import infer_dataset_class

    try:
        dataset = infer_dataset_class(str(folder))(str(folder))
    except (AssertionError, KeyError) as error:
        endings = sorted({path.suffix for path in folder.iterdir()})
        raise ValueError(
            f"`dataset` must be preprocessed into files of one kind, got {name_some(endings)} in "
            f"{str(folder)!r}. {cure}."
        ) from error
    return dataset


def _draw(images: RareImages, preprocessed: Any) -> "Figure":
    """The images of `RareImages.rarest` in the upper row, and ordinary ones in the lower."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 * N_SHOWN, 5), layout="constrained")
    panels = figure.subplots(2, N_SHOWN, squeeze=False)
    for axes in panels.flat:
        axes.axis("off")

    for row, shown in zip(panels, (images.rarest, images.ordinary), strict=True):
        for axes, case, rarity in zip(row, shown["case"], shown["rarity"], strict=False):
            axes.imshow(_middle_slice(preprocessed, case), cmap="gray", vmin=0, vmax=1)
            name = shortened(plain(case), _LONGEST_NAME)
            axes.set_title(f"{name}\n{rarity:.2g}", fontsize=8)

    figure.suptitle(
        f"{plain(images.target.dataset)}, {plain(images.target.configuration)}: images of rare "
        "kinds, then those that look rarest; below, ordinary ones (number: rarity, 1 on average)",
        fontsize=10,
    )
    return figure


def _middle_slice(preprocessed: Any, case: str) -> npt.NDArray[np.float64]:
    """The middle slice of the first channel, from 0 (black) to 1 (white)."""
    volume = preprocessed.load_case(case)[0]
    middle = volume[0, volume.shape[1] // 2]
    return grey_levels(np.asarray(middle, dtype=np.float64))
