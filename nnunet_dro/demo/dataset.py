"""The demo's dataset: deformed slices of one real brain.

They look as three acquisition protocols would show them.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.naming import extra_cure

FloatArray = npt.NDArray[np.float32]

DATASET_NAME = "Dataset900_DemoBrain"  # Name of the dataset, in the form that nnU-Net requires.

#: Number of cases of each split and centre. Centre C is rare in training, but as frequent as the
#: others in the test.
N_CASES = {
    "train": {"A": 510, "B": 78, "C": 12},
    "validation": {"A": 4, "B": 4, "C": 4},
    "test": {"A": 30, "B": 30, "C": 30},
}

SIZE = 96  # Height and width of a case, in pixels of 2 mm.
MIN_TISSUE = 0.05  # Smallest fraction of its pixels that a usable slice shows of each tissue.

#: Range of the test slices, as fractions of the usable slices of an orientation, and number of
#: slices (of 2 mm) on either side of that range that are not used at all.
TEST_RANGE = (0.6, 0.8)
GAP = 3

ORIENTATIONS = ("axial", "coronal", "sagittal")

_TEMPLATE_FILE = "mni_icbm152_{}_tal_nlin_sym_09a_converted.nii.gz"


@dataclass(frozen=True)
class Slice:
    """A slice of the template at 2 mm."""

    orientation: str  # one of `ORIENTATIONS`
    index: int  # position of the slice along its axis
    #: T1, probability of grey and of white matter, in [0, 1], shape (3, SIZE, SIZE).
    channels: FloatArray


def read_template() -> FloatArray:
    """The ICBM 2009a symmetric template that ships with nilearn.

    Returns:
        T1, grey and white matter in [0, 1], in voxels of 2 mm, shape (3, z, y, x).
    """
    import importlib.resources

    import SimpleITK

    try:
        nilearn = Path(str(importlib.resources.files("nilearn")))
    except ModuleNotFoundError:
        raise _no_template("nilearn") from None

    volumes = []
    for kind in ("t1", "gm", "wm"):
        path = nilearn / "datasets" / "data" / _TEMPLATE_FILE.format(kind)
        if not path.is_file():
            raise _no_template(str(path))
        image = SimpleITK.ReadImage(str(path))
        volumes.append(SimpleITK.GetArrayFromImage(image))
    return _halved(np.stack(volumes)) / np.float32(255)


def _no_template(missing: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"`nilearn` must be installed with its template, got no {missing!r}. {extra_cure('demo')}"
    )


def _halved(volumes: npt.NDArray[Any]) -> FloatArray:
    """Means over blocks of 2 x 2 x 2 voxels; an odd last plane is left out."""
    depth, height, width = (n // 2 for n in volumes.shape[1:])
    even = volumes[:, : 2 * depth, : 2 * height, : 2 * width]
    blocks = even.astype(np.float32).reshape(3, depth, 2, height, 2, width, 2)
    return blocks.mean(axis=(2, 4, 6))


def split_slices(template: FloatArray) -> dict[str, list[Slice]]:
    """Divide the usable slices of the template into slices for training and slices for the test."""
    split: dict[str, list[Slice]] = {"train": [], "test": []}
    for axis, orientation in enumerate(ORIENTATIONS):
        n_slices = template.shape[axis + 1]
        if orientation == "sagittal":
            # Of one hemisphere: the template is symmetric, and the other would show the test
            # slices in training.
            n_slices //= 2

        usable = []
        for index in range(n_slices):
            slice_ = _slice(template, axis, index)
            shows_tissue = (slice_.channels[1:] > 0.5).mean(axis=(1, 2))
            if shows_tissue.min() >= MIN_TISSUE:
                usable.append(slice_)

        first, last = (round(fraction * len(usable)) for fraction in TEST_RANGE)
        split["test"] += usable[first:last]
        split["train"] += usable[: first - GAP] + usable[last + GAP :]
    return split


def _slice(template: FloatArray, axis: int, index: int) -> Slice:
    images = [_centred(channel.take(index, axis=axis)) for channel in template]
    return Slice(ORIENTATIONS[axis], index, np.stack(images))


def _centred(image: FloatArray) -> FloatArray:
    """Crop or pad with zeros to SIZE x SIZE around the centre."""
    padding = []
    for n in image.shape:
        n_missing = max(0, SIZE - n)
        padding.append((n_missing // 2, n_missing - n_missing // 2))
    padded = np.pad(image, padding)

    row, column = ((n - SIZE) // 2 for n in padded.shape)
    return padded[row : row + SIZE, column : column + SIZE]


def deform(slice_: Slice, *, rng: np.random.Generator) -> Slice:
    """Make another anatomy.

    The slice is rotated and scaled a little, and displaced smoothly by up to about 12 mm.
    """
    from scipy.ndimage import gaussian_filter, map_coordinates

    pixels = np.arange(SIZE)
    grid = np.stack(np.meshgrid(pixels, pixels, indexing="ij")).astype(np.float64)
    centre = (SIZE - 1) / 2

    angle = np.deg2rad(rng.uniform(-10, 10))
    scale = rng.uniform(0.92, 1.08)
    cos = np.cos(angle)
    sin = np.sin(angle)
    turn = scale * np.array(
        [
            [cos, -sin],
            [sin, cos],
        ]
    )
    positions = np.einsum("ij,jkl->ikl", turn, grid - centre) + centre

    # A coarse and a fine displacement, the amplitudes in pixels.
    for sigma, amplitude in ((14.0, 4.0), (6.0, 2.0)):
        noise = rng.standard_normal((2, SIZE, SIZE))
        field = np.stack([gaussian_filter(part, sigma, mode="reflect") for part in noise])
        field /= np.abs(field).max()
        positions += field * amplitude * rng.uniform(0.5, 1.0)

    moved = np.stack(
        [
            map_coordinates(channel, positions, order=1, mode="constant")
            for channel in slice_.channels
        ]
    )
    return replace(slice_, channels=moved.astype(np.float32))


def label_map(slice_: Slice) -> npt.NDArray[np.uint8]:
    """The most probable tissue of each pixel: 0 for other, 1 for grey and 2 for white matter."""
    _, grey, white = slice_.channels
    other = 1 - grey - white
    return np.argmax([other, grey, white], axis=0).astype(np.uint8)


def render(slice_: Slice, centre: str, *, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Simulate the image of a centre, 0 to 255.

    Centre A shows a plain T1, B one with stronger gamma and noise, and C one inverted like T2.
    """
    from scipy.ndimage import gaussian_filter

    if centre not in ("A", "B", "C"):
        raise ValueError(f"`centre` must be A, B or C, got {centre!r}. Choose one of them.")
    t1 = slice_.channels[0]
    if centre == "A":
        image = t1 ** rng.uniform(0.9, 1.1)
        noise = 0.02
    elif centre == "B":
        image = t1 ** rng.uniform(1.8, 2.6)
        noise = 0.05
    else:
        brain = np.clip(t1 / 0.3, 0, 1)
        image = brain * (1.1 - t1) ** rng.uniform(0.9, 1.1)
        noise = 0.03

    # The bias field of the coil, and noise whose magnitude is taken as in MRI.
    field = gaussian_filter(rng.standard_normal((SIZE, SIZE)), 24.0, mode="reflect")
    bias = np.exp(np.log(1.25) * field / np.abs(field).max())
    noisy = np.abs(image * bias + noise * rng.standard_normal((SIZE, SIZE)))
    return np.clip(noisy * 180, 0, 255).astype(np.uint8)


def build_dataset(raw: Path, *, rng: np.random.Generator) -> Path:
    """Write the dataset in nnU-Net's raw format, with its case table ``cases.csv``.

    It appears once it is complete.
    """
    slices = split_slices(read_template())
    partial = raw / f"{DATASET_NAME}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for name in ("imagesTr", "labelsTr", "imagesTs", "labelsTs"):
        (partial / name).mkdir(parents=True)

    rows: list[dict[str, Any]] = []
    for split, centre in _splits_and_centres():
        name = f"brain_{len(rows) + 1:03d}"
        available = slices["test" if split == "test" else "train"]
        slice_ = deform(available[rng.integers(len(available))], rng=rng)
        image = render(slice_, centre, rng=rng)
        suffix = "Ts" if split == "test" else "Tr"
        _write_image(image, partial / f"images{suffix}" / f"{name}_0000.png")
        _write_image(label_map(slice_), partial / f"labels{suffix}" / f"{name}.png")
        rows.append(
            {
                "case": name,
                "centre": centre,
                "split": split,
                "orientation": slice_.orientation,
                "slice": slice_.index,
            }
        )
    cases = pd.DataFrame(rows)
    cases.to_csv(partial / "cases.csv", index=False)

    dataset = {
        "channel_names": {"0": "MRI"},
        "labels": {"background": 0, "grey_matter": 1, "white_matter": 2},
        "numTraining": int((cases["split"] != "test").sum()),
        "file_ending": ".png",
        "reference": "ICBM 2009a nonlinear symmetric template (Fonov et al. 2009), as shipped with "
        "nilearn",
        "description": "One real anatomy; deformations and acquisition protocols are simulated.",
    }
    (partial / "dataset.json").write_text(json.dumps(dataset, indent=2), encoding="utf-8")
    partial.rename(raw / DATASET_NAME)
    return raw / DATASET_NAME


def _splits_and_centres() -> Iterator[tuple[str, str]]:
    """The split and the centre of each case."""
    for split, n_by_centre in N_CASES.items():
        for centre, n_cases in n_by_centre.items():
            for _ in range(n_cases):
                yield split, centre


def _write_image(values: npt.NDArray[np.uint8], path: Path) -> None:
    import SimpleITK

    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(values), str(path))
