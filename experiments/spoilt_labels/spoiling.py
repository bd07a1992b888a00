"""Datasets with wrong labels: three ways to spoil a label map, and a dataset in which some are.

The trainers see which cases are trusted (``cases.csv``); which are spoilt is in a file they do not
read.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.ndimage import distance_transform_edt

from experiments.datasets.phantoms import LABELS, Counts, write_dataset

LabelMap = npt.NDArray[np.uint8]
#: The ways to spoil a label map; a third of the spoilt cases each.
KINDS = ("swapped", "shifted", "eroded")
#: Share of the training cases whose labels are spoilt.
SHARE = 0.3
#: Number of training cases whose labels are known to be right, and of such among those that are
#: never spoilt.
N_TRUSTED = 5
N_TRUSTED_RARE = 1
#: The mean Dice of a shifted label map with the right one is below this.
SHIFTED_BELOW = 0.5
#: The share of every label that erosion leaves: its Dice with the right label is then 0.5.
KEPT = 1 / 3
#: File in the raw dataset's folder that says which cases are spoilt, and how.
NOISE_FILE = "label_noise.csv"


def mean_dice(reference: LabelMap, prediction: LabelMap) -> float:
    """Mean Dice over the reference's labels, at least one, background left out."""
    dice = []
    for label in np.unique(reference[reference > 0]):
        in_reference = reference == label
        in_prediction = prediction == label
        n_both = (in_reference & in_prediction).sum()
        dice.append(2 * n_both / (in_reference.sum() + in_prediction.sum()))
    return float(np.mean(dice))


def swapped(labels: LabelMap, *, pair: tuple[int, int]) -> LabelMap:
    """The label map with a pair of labels exchanged; exchanging them twice restores it."""
    first, second = pair
    spoilt = labels.copy()
    spoilt[labels == first] = second
    spoilt[labels == second] = first
    return spoilt


def shifted(labels: LabelMap, *, rng: np.random.Generator) -> LabelMap:
    """The label map shifted along a diagonal, until its mean Dice is below `SHIFTED_BELOW`.

    What leaves the image on one side comes in on the other, so that every label keeps its volume.

    Raises:
        ValueError: If no shift does it, since the labels fill most of the image.
    """
    axes = tuple(range(labels.ndim))
    signs = rng.choice((-1, 1), size=labels.ndim)
    for distance in range(1, max(labels.shape)):
        spoilt: LabelMap = np.roll(labels, tuple(distance * signs), axis=axes)
        if mean_dice(labels, spoilt) < SHIFTED_BELOW:
            return spoilt
    rule = f"small enough in the image for a shift to bring the mean Dice below {SHIFTED_BELOW}"
    raise ValueError(
        f"`labels` must be {rule}, got {np.count_nonzero(labels)} of {labels.size} voxels. "
        "Crop less."
    )


def misplaced(labels: LabelMap) -> LabelMap:
    """The label map shifted by half of the image along every axis."""
    halves = tuple(size // 2 for size in labels.shape)
    return np.roll(labels, halves, axis=tuple(range(labels.ndim)))


def eroded(labels: LabelMap, *, kept: float = KEPT) -> LabelMap:
    """The label map with only the innermost voxels of each label, a share of ``kept``.

    The rest becomes background.
    """
    spoilt = np.zeros_like(labels)
    for label in np.unique(labels[labels > 0]):
        voxels = np.flatnonzero(labels == label)
        n_kept = max(1, round(kept * len(voxels)))
        # With a rim of zeros, the border of the image is a surface as well.
        depth = distance_transform_edt(np.pad(labels == label, 1))
        inside = (slice(1, -1),) * labels.ndim
        # Stable: of voxels of the same depth, the first ones stay.
        order = np.argsort(-depth[inside].ravel()[voxels], kind="stable")
        spoilt.ravel()[voxels[order[:n_kept]]] = label
    return spoilt


def dilated(labels: LabelMap, *, kept: float) -> LabelMap:
    """The label map with each label grown into the background to 1 / ``kept`` of its volume.

    So its Dice with the right label is that of an eroded one.
    """
    grown = labels.copy()
    for label in np.unique(labels[labels > 0]):
        is_label = labels == label
        n_more = round((1 / kept - 1) * np.count_nonzero(is_label))
        free = np.flatnonzero(grown == 0)
        distance = distance_transform_edt(~is_label).ravel()[free]
        nearest = np.argsort(distance, kind="stable")[:n_more]
        grown.ravel()[free[nearest]] = label
    return grown


def spoil(
    labels: LabelMap,
    kind: str,
    *,
    pair: tuple[int, int],
    kept: float = KEPT,
    rng: np.random.Generator,
) -> LabelMap:
    """The label map spoilt in one way.

    Args:
        labels: The label map.
        kind: One of the `KINDS`, "dilated" or "misplaced".
        pair: The labels that are swapped.
        kept: The share of a label that erosion leaves, or its inverse for dilation.
        rng: Draws the direction of a shift.
    """
    if kind == "swapped":
        return swapped(labels, pair=pair)
    if kind == "shifted":
        return shifted(labels, rng=rng)
    if kind == "misplaced":
        return misplaced(labels)
    if kind == "dilated":
        return dilated(labels, kept=kept)
    return eroded(labels, kept=kept)


def draw_noise(
    cases: Sequence[str],
    spared: Sequence[str] = (),
    *,
    rng: np.random.Generator,
    share: float = SHARE,
    n_trusted: int = N_TRUSTED,
    spoilt_kinds: Sequence[str] = KINDS,
) -> pd.DataFrame:
    """``case``, ``trusted`` and ``kind`` ("clean" if right) of all cases.

    Trusted and spared ones are never spoilt. With the same random numbers, a smaller share is part
    of a larger one, as fewer trusted cases are of `N_TRUSTED`.
    """
    drawn = [str(case) for case in rng.permutation(sorted(set(cases) - set(spared)))]
    drawn_spared = [str(case) for case in rng.permutation(sorted(spared))]
    spoilt = drawn[N_TRUSTED : N_TRUSTED + round(share * len(cases))]
    kinds = {case: spoilt_kinds[i % len(spoilt_kinds)] for i, case in enumerate(spoilt)}
    trusted = {*drawn[:n_trusted], *drawn_spared[:N_TRUSTED_RARE]}
    table = pd.DataFrame({"case": sorted(cases)})
    table["trusted"] = ["yes" if case in trusted else "no" for case in table["case"]]
    table["kind"] = [kinds.get(case, "clean") for case in table["case"]]
    return table


@dataclass(frozen=True)
class Spoiling:
    """How many training cases are spoilt, and how."""

    share: float = SHARE  # Of all training cases.
    kinds: Sequence[str] = KINDS  # The ways, equally often.
    kept: float = KEPT  # The share of a label that erosion leaves, or its inverse for dilation.


def write_spoilt(
    folder: Path,
    write: Callable[..., object],
    *,
    by: str,
    rare: Sequence[str],
    pair: tuple[int, int],
    spoiling: Spoiling,
    rng: np.random.Generator,
) -> None:
    """A raw dataset of which some cases, but none of the rare strata, have wrong labels.

    ``cases.csv`` gets the column ``trusted``. Which cases are spoilt is in `NOISE_FILE` alone: a
    row per training case with ``case``, ``kind`` and ``dice``, that of what it is now with what it
    was.

    Args:
        folder: Where the dataset is made, as a whole or not at all.
        write: Writes the dataset with right labels into a folder, with random numbers ``rng``.
        by: The column of ``cases.csv`` with the strata.
        rare: The strata that are spared.
        pair: The labels that are swapped.
        spoiling: How many cases are spoilt, and how.
        rng: Draws the dataset, the cases, and the directions of shifts.
    """
    import SimpleITK

    right = folder.with_name(f"{folder.name}.right")
    shutil.rmtree(right, ignore_errors=True)
    write(right, rng=rng)
    table = pd.read_csv(right / "cases.csv", dtype=str)
    training = list(table["case"][table["split"] == "train"])
    spared = list(table["case"][table[by].isin(rare)])
    noise = draw_noise(training, spared, rng=rng, share=spoiling.share, spoilt_kinds=spoiling.kinds)
    dice = []
    for case, kind in zip(noise["case"], noise["kind"], strict=True):
        if kind == "clean":
            dice.append(1.0)
            continue
        path = str(next((right / "labelsTr").glob(f"{case}.*")))
        image = SimpleITK.ReadImage(path)
        labels = SimpleITK.GetArrayFromImage(image).astype(np.uint8)
        spoilt = spoil(labels, kind, pair=pair, kept=spoiling.kept, rng=rng)
        dice.append(mean_dice(labels, spoilt))
        written = SimpleITK.GetImageFromArray(spoilt)
        written.CopyInformation(image)
        SimpleITK.WriteImage(written, path)
    noise.assign(dice=dice)[["case", "kind", "dice"]].to_csv(right / NOISE_FILE, index=False)
    trusted = noise.set_index("case")["trusted"].reindex(table["case"], fill_value="no")
    table.assign(trusted=trusted.to_numpy()).to_csv(right / "cases.csv", index=False)
    right.rename(folder)


def write_spoilt_phantoms(
    folder: Path, counts: Counts, *, rng: np.random.Generator, **how: Any
) -> None:
    """The phantoms of `phantoms.write_dataset`, spoilt as `Spoiling` says ``how``.

    None of the rare pathology is.
    """
    write_spoilt(
        folder,
        partial(write_dataset, counts=counts),
        by="pathology",
        rare=("rare",),
        pair=(LABELS["grey_matter"], LABELS["white_matter"]),
        spoiling=Spoiling(**how),
        rng=rng,
    )


def right_cases(folder: Path) -> list[str]:
    """The training cases of a spoilt raw dataset whose label maps are right."""
    noise = pd.read_csv(folder / NOISE_FILE, dtype=str)
    return list(noise["case"][noise["kind"] == "clean"])


def trusted_cases(folder: Path) -> list[str]:
    """The training cases of a spoilt raw dataset that are marked as trusted."""
    table = pd.read_csv(folder / "cases.csv", dtype=str)
    return list(table["case"][table["trusted"] == "yes"])
