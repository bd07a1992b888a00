"""Made-up images of nuclei in which some modalities are rare."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import SimpleITK

from experiments.datasets.nuclei import N_TRAIN, N_TRAIN_OF_TWO, Image
from experiments.nuclei.patches import PATCH


def made_table(n_fields=40):
    """Fields of two images each, every modality with enough of them."""
    rows = []
    for modality, n in N_TRAIN.items():
        for field in range(n // 2 + n_fields):
            rows += [
                (f"{modality}_{field}_{tile}", "train", modality, f"{modality}_{field}")
                for tile in "ab"
            ]
    return pd.DataFrame(rows, columns=["case", "split", "modality", "field"])


def made_images(n_train: Mapping[str, int] = N_TRAIN_OF_TWO, size: int = PATCH) -> list[Image]:
    """Images of that side with a nucleus each, as many of every modality as the experiment with
    wrong labels has."""
    rng = np.random.default_rng(0)
    images = []
    for modality, n in n_train.items():
        for i in range(n):
            labels = np.zeros((size, size), np.uint8)
            labels[20:40, 30:50] = 1
            values = (labels + rng.normal(scale=0.1, size=(3, size, size))).astype(np.float32)
            images.append(Image(f"{modality}_{i}", modality, values, labels))
    return images


def write_nuclei_dataset(folder: Path, *, size=(72, 72)) -> pd.DataFrame:
    """Write a raw dataset of images of that height and width, and return its table."""
    table = made_table(3)
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for case in table["case"]:
        labels = np.zeros(size, np.uint8)
        labels[20:40, 30:50] = 1
        rgb = (100 * labels[..., None] + rng.integers(0, 100, (*size, 3))).astype(np.uint8)
        image = SimpleITK.GetImageFromArray(rgb, isVector=True)
        SimpleITK.WriteImage(image, str(folder / "imagesTr" / f"{case}_0000.png"))
        SimpleITK.WriteImage(
            SimpleITK.GetImageFromArray(labels), str(folder / "labelsTr" / f"{case}.png")
        )
    table.to_csv(folder / "cases.csv", index=False)
    return table


def write_domains(folder: Path) -> None:
    """Write a raw dataset of images whose strata are those of the experiment on unseen domains."""
    table = write_nuclei_dataset(folder)
    strata = (
        table["modality"]
        .map({"fluorescence": "fluo_small", "purple": "fluo_640x512"})
        .fillna("other")
    )
    table.assign(stratum=strata).to_csv(folder / "cases.csv", index=False)
