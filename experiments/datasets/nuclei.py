"""Microscopy images of cell nuclei in which some modalities are rare in training, read from a raw nnU-Net dataset.

The data are the 2018 Data Science Bowl's (BBBC038, Caicedo et al. 2019), as RGB png in nnU-Net's raw format, with a
``cases.csv`` that has the columns ``case``, ``split``, ``modality`` and ``field``. Images of one field are neighbouring
tiles, so a field is used on one side only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: Training images of each modality: bright nuclei on dark, then three kinds of dark nuclei on bright.
N_TRAIN = {"fluorescence": 300, "purple": 6, "purple_white": 6, "gray_smear": 4}
#: Largest number of test images of each modality, which keeps the tests short.
N_TEST = {"fluorescence": 30, "purple": 30, "purple_white": 22, "gray_smear": 12}


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        case: Its name.
        modality: Its modality, the stratum.
        intensities: Standardised per channel, shape (3, height, width), float32.
        labels: 1 in nuclei, shape (height, width), uint8.
    """

    case: str
    modality: str
    intensities: NDArray[np.float32]
    labels: NDArray[np.uint8]

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
    """Draw the training and the test images, no field on both sides.

    Args:
        table: The dataset's ``cases.csv``.
        rng: Draws the fields.
        n_train: Training images of each modality.
        n_test: Largest number of test images of each modality.

    Returns:
        Names of the cases of ``train`` and ``test``, modality by modality.

    Raises:
        ValueError: If a modality has too few images.
    """
    split: dict[str, list[str]] = {"train": [], "test": []}
    for modality, wanted in n_train.items():
        here = table[table["modality"] == modality]
        fields = {field: rows["case"].tolist() for field, rows in here.groupby("field")}
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
                f"`table` must have more than {wanted} images of {modality}, got {len(here)}. Train with fewer."
            )
        split["train"] += train
        split["test"] += [test[i] for i in sorted(rng.permutation(len(test))[: n_test[modality]])]
    return split


def read_nuclei(folder: Path, cases: list[str]) -> list[Image]:
    """Read images with their labels.

    Args:
        folder: The raw dataset.
        cases: Names of the cases.

    Raises:
        FileNotFoundError: If the folder lacks ``cases.csv`` or an image.
    """
    import SimpleITK

    table = read_table(folder).set_index("case")
    images = []
    for case in cases:
        suffix = "Tr" if table.loc[case, "split"] == "train" else "Ts"
        paths = [folder / f"images{suffix}" / f"{case}_0000.png", folder / f"labels{suffix}" / f"{case}.png"]
        for path in paths:
            if not path.exists():
                raise FileNotFoundError(f"{path} is missing. Give the folder of the whole dataset with --data.")
        rgb, labels = (SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path))) for path in paths)
        values = rgb[..., :3].astype(np.float32).transpose(2, 0, 1)
        mean, deviation = (getattr(values, name)((1, 2), keepdims=True) for name in ("mean", "std"))
        standardised = (values - mean) / np.maximum(deviation, 1e-3)
        images.append(Image(case, str(table.loc[case, "modality"]), standardised, (labels > 0).astype(np.uint8)))
    return images


def read_table(folder: Path) -> pd.DataFrame:
    """The dataset's ``cases.csv``; raises FileNotFoundError if there is none."""
    path = folder / "cases.csv"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing. Give the folder of the nuclei dataset with --data.")
    return pd.read_csv(path)
