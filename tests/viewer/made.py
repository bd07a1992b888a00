"""Small cases to look at: a ball in noise, its prediction moved."""

import json

import numpy as np
import pandas as pd

from tests.commands import done, run
from tests.evaluation.made_folders import run_evaluate, write_map

SHAPE = (30, 36, 40)


def write(path, values, *, spacing=(1.0, 1.0, 2.0), origin=(5.0, -7.0, 11.0), direction=None):
    write_map(path, values, spacing=spacing, origin=origin, direction=direction, dtype=values.dtype)


def ball(centre, radius, shape=SHAPE):
    return (
        sum((axis - place) ** 2 for axis, place in zip(np.indices(shape), centre, strict=True))
        <= radius**2
    )


def write_cases(
    root, shifts=(0, 2, 4, 6), *, names=None, n_channels=1, shape=SHAPE, ending=".nii.gz"
):
    """Folders ``reference``, ``prediction`` and ``images``, dataset.json and cases.csv; organ 1
    holds tumour 2.

    The prediction lies as many voxels to the left as the shift says, and the image is bright inside
    the organ.
    """
    rng = np.random.default_rng(0)
    names = names or [f"case_{n:02}" for n in range(len(shifts))]
    middle = [n // 2 for n in shape]
    for name, shift in zip(names, shifts, strict=True):
        reference = ball(middle, 9, shape).astype(np.uint8)
        reference[ball(middle, 4, shape)] = 2
        prediction = np.roll(reference, shift, axis=-1)
        write(root / "reference" / f"{name}{ending}", reference)
        write(root / "prediction" / f"{name}{ending}", prediction)
        for channel in range(n_channels):
            noise = rng.integers(0, 100, shape)
            image = noise + 100 * (reference > 0) if channel == 0 else noise
            dtype = np.int16 if ending == ".nii.gz" else np.uint8
            write(root / "images" / f"{name}_{channel:04d}{ending}", image.astype(dtype))
    labels = {"background": 0, "organ": [1, 2], "tumour": 2}
    channels = {"0": "T1", "1": "FLAIR"}
    (root / "reference" / "dataset.json").write_text(
        json.dumps({"labels": labels, "channel_names": channels})
    )
    sites = [("A", "B")[n % 2] for n in range(len(names))]
    pd.DataFrame({"case": names, "site": sites}).to_csv(root / "cases.csv", index=False)
    return root


def evaluated(root, **options):
    """The folder of an evaluation of such cases."""
    write_cases(root, **options)
    done(run_evaluate(root, "--cases", root / "cases.csv", "--by", "site"))
    return root / "out"


def report(root, *options):
    return run("report", root / "out", "--images", root / "images", *options)
