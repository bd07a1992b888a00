"""Small folders of label maps, and the commands run on them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import SimpleITK

from tests.commands import done, refused, run

#: Names and values of the labels of `write_study`.
LABELS = {"background": 0, "tumour": 1, "organ": 2}


def write_map(
    path, values, *, spacing=(1.0, 1.0, 1.0), origin=(0.0, 0.0, 0.0), direction=None, dtype=np.uint8
):
    """Write a label map (z, y, x); spacing, origin and direction are (x, y, z), as SimpleITK has
    them."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    image = SimpleITK.GetImageFromArray(np.asarray(values, dtype=dtype))
    if image.GetDimension() == 3:
        image.SetSpacing(spacing)
        image.SetOrigin(origin)
        image.SetDirection(direction or (1, 0, 0, 0, 1, 0, 0, 0, 1))
    SimpleITK.WriteImage(image, str(path))


def write_pair(root, file, reference, prediction, **options):
    """Write the two label maps of a case, as `write_map` does."""
    for folder, values in (("reference", reference), ("prediction", prediction)):
        write_map(Path(root) / folder / file, values, **options)


def bars(tumour, shift=0, *, organ=2):
    """An 8 x 8 x 8 map: a bar of ``tumour`` voxels (at most 8) along x, moved by ``shift``, and a
    bar of the organ."""
    values = np.zeros((8, 8, 8), np.uint8)
    values[1, 1, shift : shift + tumour] = 1
    values[4, 4, :organ] = 2
    return values


def write_study(root, shifts=(0, 1, 2, 4), *, dataset_json=True, **columns):
    """Folders ``reference`` and ``prediction`` of cases case_00 ...; the tumours are 4 voxels,
    moved by the shifts.

    The Dice of the tumour is 1 - shift / 4, that of the organ 1. The columns are those of
    cases.csv, which is found beside the references.
    """
    root = Path(root)
    for n, shift in enumerate(shifts):
        write_pair(root, f"case_{n:02}.nii.gz", bars(4), bars(4, shift))
    if dataset_json:
        write_dataset_json(root / "reference")
    if columns:
        write_cases(root, **columns)
    return root


def write_dataset_json(folder, labels=None):
    (Path(folder) / "dataset.json").write_text(
        json.dumps({"labels": LABELS if labels is None else labels})
    )


def write_cases(root, **columns):
    """A case table with a row per entry of the columns: case_00 ..."""
    n_cases = len(next(iter(columns.values())))
    table = pd.DataFrame({"case": [f"case_{n:02}" for n in range(n_cases)]} | columns)
    table.to_csv(Path(root) / "cases.csv", index=False)
    return Path(root) / "cases.csv"


def run_evaluate(root, *options, out="out", bootstrap=0):
    """Run `nnunet-dro evaluate` on a study; the default is no intervals, for speed."""
    folders = (root / "reference", root / "prediction")
    return run(
        "evaluate", *folders, "-o", root / out, "--bootstrap", bootstrap, "--jobs", 2, *options
    )


def evaluate_both(root, shifts, *options, bootstrap=0, **columns):
    """Evaluate a study as erm, and with its first predictions moved by other shifts as dro; the
    words to compare them.

    The columns are those of its case table.
    """
    options = (*options, "--cases", write_cases(root, **columns)) if columns else options
    done(run_evaluate(root, *options, out="erm", bootstrap=bootstrap))
    for n, shift in enumerate(shifts):
        write_map(root / "prediction" / f"case_{n:02}.nii.gz", bars(4, shift))
    done(run_evaluate(root, *options, out="dro", bootstrap=bootstrap))
    return f"ERM={root / 'erm'}", f"DRO={root / 'dro'}"


def contents(folder):
    """The contents of the files of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read_csv(path):
    """A table as text where it is text: case 001 stays 001, and nothing but an empty entry is NaN."""
    return pd.read_csv(
        path, dtype={"case": str, "label": str}, keep_default_na=False, na_values=[""]
    )


def scores_of(folder):
    return read_csv(folder / "scores.csv")


def dice_of(folder, label="tumour"):
    """The Dice of every case."""
    scores = scores_of(folder)
    return scores[scores["label"] == label].set_index("case")["dice"].to_dict()


def summary_of(folder):
    """The summary, read as strictly as other languages do."""

    def refuse(name):
        raise ValueError(f"not JSON: {name}")

    return json.loads((folder / "summary.json").read_text(encoding="utf-8"), parse_constant=refuse)


def check_refused(result, root, *words, out="out", files=()):
    """One line on stderr with these words, exit code 2, and no output, whole or half."""
    refused(result, *words)
    assert not (root / out).is_dir() or files
    assert not list(root.glob("*.partial*"))
    assert sorted(path.name for path in (root / out).glob("*")) == sorted(files)


#: What `nnunet-dro evaluate` writes.
EVALUATION_FILES = [
    "report.html",
    "report.md",
    "report.tex",
    "scores.csv",
    "strata.csv",
    "summary.json",
]


def names_in(folder):
    """Names of the files in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def strata_of(folder, label="tumour", metric="dice"):
    """Rows of strata.csv, by attribute and stratum."""
    strata = read_csv(folder / "strata.csv")
    return strata[(strata["label"] == label) & (strata["metric"] == metric)].set_index(
        ["attribute", "stratum"]
    )
