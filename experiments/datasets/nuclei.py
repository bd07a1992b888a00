"""Microscopy images of cell nuclei in which some modalities are rare in training.

The data are the 2018 Data Science Bowl's (BBBC038, Caicedo et al. 2019), as RGB png in nnU-Net's
raw format, with a ``cases.csv`` that has the columns ``case``, ``split``, ``modality`` and
``field``. Images of one field are neighbouring tiles, so a field is used on one side only.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.datasets.division import begin_dataset, finish_dataset

#: Training images of each modality: bright nuclei on dark, then three kinds of dark nuclei on
#: bright.
N_TRAIN = {"fluorescence": 300, "purple": 6, "purple_white": 6, "gray_smear": 4}
#: Largest number of test images of each modality, which keeps the tests short.
N_TEST = {"fluorescence": 30, "purple": 30, "purple_white": 22, "gray_smear": 12}
#: The same where some labels are wrong: of a common and a rare modality.
N_TRAIN_OF_TWO = {"fluorescence": 90, "purple": 10}
N_TEST_OF_TWO = {"fluorescence": 30, "purple": 30}
#: Background and nuclei, which are exchanged where labels are swapped.
PAIR = (0, 1)
#: Test images are cut to their middle, so many pixels wide and high at most.
TEST_SIZE = 256


@dataclass(frozen=True)
class Image:
    """One image."""

    case: str  # Its name.
    modality: str  # Its modality, the stratum.
    intensities: NDArray[np.float32]  # Standardised per channel, shape (3, height, width), float32.
    labels: NDArray[np.uint8]  # 1 in nuclei, shape (height, width), uint8.

    def centre(self, size: int) -> "Image":
        """The middle of the image, ``size`` pixels wide and high at most."""
        top, left = (max(0, (length - size) // 2) for length in self.labels.shape)
        window = np.s_[..., top : top + size, left : left + size]
        return Image(self.case, self.modality, self.intensities[window], self.labels[window])


def split_nuclei(
    table: pd.DataFrame,
    *,
    rng: np.random.Generator,
    n_train: Mapping[str, int] = N_TRAIN,
    n_test: Mapping[str, int] = N_TEST,
) -> dict[str, list[str]]:
    """Draw the training images and at most so many test images of each modality.

    No field is on both sides.
    """
    split: dict[str, list[str]] = {"train": [], "test": []}
    for modality, wanted in n_train.items():
        images = table[table["modality"] == modality]
        fields = {field: rows["case"].tolist() for field, rows in images.groupby("field")}
        train: list[str] = []
        test: list[str] = []
        for name in rng.permutation(sorted(fields)):
            # The rest of a field that is only partly needed is used nowhere.
            if len(train) < wanted:
                train += fields[name][: wanted - len(train)]
            else:
                test += fields[name]
        if len(train) < wanted or not test:
            raise ValueError(
                f"`table` must have more than {wanted} images of {modality}, got {len(images)}. "
                "Train with fewer."
            )
        chosen = rng.permutation(len(test))[: n_test[modality]]
        split["train"] += train
        split["test"] += [test[i] for i in sorted(chosen)]
    return split


def read_nuclei(folder: Path, cases: list[str]) -> list[Image]:
    """Read images with their labels.

    Raises:
        FileNotFoundError: If the folder lacks ``cases.csv`` or an image.
    """
    table = read_table(folder).set_index("case")
    images = []
    for case in cases:
        image, label_map = _paths(folder, case, str(table.loc[case, "split"]))
        rgb = _pixels(image)[..., :3].astype(np.float32)
        labels = _pixels(label_map) > 0
        images.append(
            Image(
                case,
                modality=str(table.loc[case, "modality"]),
                intensities=standardised(rgb.transpose(2, 0, 1)),
                labels=labels.astype(np.uint8),
            )
        )
    return images


def _pixels(path: Path) -> NDArray[Any]:
    import SimpleITK

    return SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path)))


def standardised(values: NDArray[np.floating]) -> NDArray[np.float32]:
    """Values of mean 0 and standard deviation 1 in each channel, shape (3, height, width)."""
    mean = values.mean((1, 2), keepdims=True)
    deviation = values.std((1, 2), keepdims=True)
    return ((values - mean) / np.maximum(deviation, 1e-3)).astype(np.float32)


def write_nuclei(
    folder: Path,
    data: Path,
    table: pd.DataFrame,
    *,
    n_train: Mapping[str, int] = N_TRAIN,
    n_test: Mapping[str, int],
    rng: np.random.Generator,
) -> None:
    """Divide the images anew and write them as a raw dataset, as a whole or not at all."""
    import SimpleITK

    split = split_nuclei(table, rng=rng, n_train=n_train, n_test=n_test)
    table = table.set_index("case")
    split["validation"] = _unused(table, split["train"] + split["test"])[:2]

    partial = begin_dataset(folder)
    rows = []
    for side, cases in split.items():
        suffix = "Ts" if side == "test" else "Tr"
        for case in cases:
            paths = _paths(data, case, str(table.loc[case, "split"]))
            for source, name in zip(paths, ("images", "labels"), strict=True):
                image = SimpleITK.ReadImage(str(source))
                if side == "test":
                    image = _middle(image)
                SimpleITK.WriteImage(image, str(partial / f"{name}{suffix}" / source.name))
            rows.append((case, table.loc[case, "modality"], side))
    divided = pd.DataFrame(rows, columns=["case", "modality", "split"])
    description = json.loads((data / "dataset.json").read_text(encoding="utf-8"))
    finish_dataset(partial, folder, divided, description)


def _unused(table: pd.DataFrame, used: list[str]) -> list[str]:
    """The images of the common modality whose fields are not used."""
    common = table[table["modality"] == next(iter(N_TRAIN))]
    fields = set(table.loc[used, "field"])
    return common.index[~common["field"].isin(fields)].tolist()


def _middle(image: Any) -> Any:
    """The middle of a SimpleITK image, `TEST_SIZE` pixels wide and high at most."""
    firsts = [max(0, (length - TEST_SIZE) // 2) for length in image.GetSize()]
    return image[tuple(slice(first, first + TEST_SIZE) for first in firsts)]


def _paths(folder: Path, case: str, split: str) -> tuple[Path, Path]:
    """The image and the label map of a case; raises FileNotFoundError if there is none."""
    suffix = "Tr" if split == "train" else "Ts"
    paths = (
        folder / f"images{suffix}" / f"{case}_0000.png",
        folder / f"labels{suffix}" / f"{case}.png",
    )
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(
                f"{path} is missing. Give the folder of the whole dataset with --data."
            )
    return paths


def read_table(folder: Path) -> pd.DataFrame:
    """The dataset's ``cases.csv``; raises FileNotFoundError if there is none."""
    path = folder / "cases.csv"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing. Give the folder of the nuclei dataset with --data."
        )
    return pd.read_csv(path)
