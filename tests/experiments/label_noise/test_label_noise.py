from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import SimpleITK

from experiments.__main__ import main
from experiments.datasets.phantoms import LABELS
from experiments.label_noise.experiment import page_text
from experiments.label_noise.trainings import FINETUNED, RIGHT, phantoms
from experiments.spoilt_labels.spoiling import KINDS, NOISE_FILE, trusted_cases
from nnunet_dro.trainers.checkpoint import read_checkpoint
from tests.experiments.label_noise.test_results import made_cases, made_scores

QUICK_METHODS = ("ERM", RIGHT, FINETUNED, "random", "L2RW")


def made_page(means):
    scores = made_scores(means, trainer="T")
    kinds = ["clean"] * 7 + list(KINDS)
    cases = [
        made_cases(method, "loss", range(10), range(10), kinds, trusted=(0,), seed=seed, rare=(1,))
        for method in means
        for seed in range(3)
    ]
    cases = pd.concat(cases, ignore_index=True)
    return page_text(scores, cases, phantoms(quick=False))


def test_page_says_if_the_trainings_were_long_enough():
    page = made_page({"ERM": [0.6, 0.7, 0.8], RIGHT: [0.9, 0.91, 0.92]})
    assert "**Long enough?** Yes." in page
    assert "never learnt" not in page


def test_page_says_where_right_labels_were_not_learnt():
    page = made_page({"ERM": [0.6, 0.7, 0.0], RIGHT: [0.9, 0.79, 0.9]})
    assert (
        "Not by the criterion: `right` has a Dice of 80 or less in seed 1, control: grey_matter; seed 1"
        in page
    )
    assert "In the rare pathology `right` has 86.3 (grey_matter), 86.3 (white" in page
    assert "in any pathology:** ERM, seed 2 (grey_matter)" in page


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_quick_run_with_nnunet(tmp_path, capsys):
    work = tmp_path / "work"
    out = tmp_path / "out"
    words = ["label-noise", "--work", str(work), "--out", str(out), "--quick", "--jobs", "1"]

    words += ["--methods", *QUICK_METHODS]

    assert main(words) == 0
    assert "failed" not in capsys.readouterr().err

    (seed,) = work.glob("quick/phantoms-*/seed0")
    raw = seed / "nnUNet_raw" / "Dataset913_NoisyPhantoms"
    test = pd.read_csv(raw / "test_cases.csv")
    scores = pd.read_csv(out / "label-noise-seeds.csv").set_index(["method", "stratum", "label"])
    for method in QUICK_METHODS:
        folders = (seed / "predictions" / method, raw / "labelsTs")
        for label in list(LABELS)[1:]:
            dice = [
                dice_of(case, folders, LABELS[label])
                for case in test["case"][test["pathology"] == "rare"]
            ]
            assert scores.loc[(method, "rare", label), "mean"] == pytest.approx(
                np.mean(dice), abs=1e-4
            )
    cases = pd.read_csv(out / "label-noise-cases.csv")

    assert cases["method"].value_counts().to_dict() == {"ERM": 20, "random": 20, "L2RW": 20}

    noise = pd.read_csv(raw / NOISE_FILE).set_index("case")["kind"]
    assert cases.set_index("case")["kind"].to_dict() == noise.to_dict()

    (log,) = (seed / "nnUNet_results").rglob("weights.csv")
    seen = pd.read_csv(log).query("epoch > 0 and times_seen > 0")
    mean = (seen["weight"] * seen["times_seen"]).groupby(seen["case"]).sum() / seen.groupby("case")[
        "times_seen"
    ].sum()
    of_l2rw = cases[cases["method"] == "L2RW"].set_index("case")["value"].dropna()

    assert of_l2rw.to_dict() == pytest.approx(mean.to_dict(), abs=1e-5)

    # The folds have the cases that the methods are about.
    for fold, is_of_fold in ((1, noise == "clean"), (2, noise.index.isin(trusted_cases(raw)))):
        (losses,) = (seed / "nnUNet_results").rglob(f"fold_{fold}/hardness.csv")
        assert set(pd.read_csv(losses)["case"]) == set(noise.index[is_of_fold])
    assert "Smoke run" in (out / "label-noise.md").read_text()

    # Nothing that the trainers read says which cases are wrong.
    (training_log,) = [
        path for path in (seed / "nnUNet_results").rglob("training.csv") if "L2RW" in str(path)
    ]
    assert not any(word in training_log.read_text() for word in (*KINDS, "kind"))

    check_that_a_training_is_repeated(seed, words)


def check_that_a_training_is_repeated(seed, words):
    """The same seed and trainer give the same weights, at the end as at the beginning."""
    (path,) = [
        p
        for p in Path(seed / "nnUNet_results").rglob("fold_0/checkpoint_final.pth")
        if "HWS" in str(p)
    ]
    first = read_checkpoint(path, cure="")["network_weights"]
    for finished in seed.parents[1].rglob("ERM-seed0-*.json"):
        finished.unlink()
    assert main(words) == 0
    again = read_checkpoint(path, cure="")["network_weights"]
    assert all((values == again[name]).all() for name, values in first.items())


def dice_of(case, folders, value):
    images = (SimpleITK.ReadImage(str(folder / f"{case}.nii.gz")) for folder in folders)
    found, right = (SimpleITK.GetArrayFromImage(image) == value for image in images)
    return 2 * (found & right).sum() / (found.sum() + right.sum())
