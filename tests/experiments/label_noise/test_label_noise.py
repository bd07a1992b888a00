import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from experiments.curves import verdict
from experiments.label_noise.__main__ import QUICK_METHODS, main, run
from experiments.label_noise.page import page_text
from experiments.label_noise.studies import RIGHT, phantom_study, trainers
from experiments.nnunet_runs import runs as nnunet_runs
from experiments.nnunet_runs.results import ALL_LABELS
from experiments.spoilt_labels.separation import separation_table
from experiments.spoilt_labels.spoiling import KINDS, NOISE_FILE
from nnunet_dro.trainers.checkpoint import read_checkpoint
from tests.experiments.label_noise.test_results import made_cases, made_scores
from tests.experiments.made_studies import NNUNet, tiny_study, write_tiny


def write_log(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)


WEIGHTS, HARDNESS = ["epoch", "case", "weight", "times_seen"], ["epoch", "case", "loss", "probability", "draws"]


class WithLogs(NNUNet):
    """The stand-in for nnU-Net, which writes what our trainers write about their cases, too."""

    def train(self, trainer, arguments, environment):
        super().train(trainer, arguments, environment)
        number = arguments[arguments.index("-tr") - 1]
        (fold,) = self.results(environment).glob(f"{trainer}__*/fold_{number}")
        cases = ["rare0Tr", "usual1Tr", "usual2Tr", "usual3Tr"]
        rows = [(epoch, case, float(case == "rare0Tr"), 0.25, 1) for epoch in range(2) for case in cases]
        write_log(fold / "hardness.csv", HARDNESS, rows)

    @staticmethod
    def results(environment):
        return Path(environment["nnUNet_results"]) / "Dataset912_Tiny"


def write_tiny_with_noise(folder, rng):
    write_tiny(folder, rng)
    table = pd.read_csv(folder / "cases.csv")
    table.assign(trusted=["yes" if case == "usual1Tr" else "no" for case in table["case"]]).to_csv(
        folder / "cases.csv", index=False
    )
    noise = table[table["split"] == "train"][["case"]].assign(dice=1.0)
    noise.assign(kind=["swapped" if case == "rare0Tr" else "clean" for case in noise["case"]]).to_csv(
        folder / NOISE_FILE, index=False
    )


def noisy_study():
    """The tiny study as one with a wrong label map in the training, of the case rare0Tr."""
    return tiny_study(
        name="phantoms",
        labels=("stem", "bud"),
        write=write_tiny_with_noise,
        trainers=trainers(2),
        subsets={RIGHT: lambda _: ["usual1Tr", "usual2Tr"]},
    )


def test_run_writes_a_page_with_the_numbers_of_its_files_and_goes_on(tmp_path, monkeypatch):
    nnunet = WithLogs()
    nnunet.n_stem = {("nnUNetTrainerDRO", "usual0Ts", seed): 5 for seed in (0, 1)}
    monkeypatch.setattr(nnunet_runs, "run_command", nnunet)
    options = {"work": tmp_path / "work", "out": tmp_path / "out", "console": Console(quiet=True)}
    page = run(noisy_study(), seeds=(0, 1), methods=("DRO", RIGHT), **options)

    scores = pd.read_csv(tmp_path / "out" / "label-noise-seeds.csv")
    means = scores.set_index(["method", "seed", "stratum", "label"])["mean"].sort_index()
    # One of three usual cases has Dice 2/3 for one of two labels.
    assert means["DRO", 0, "usual", "stem"] == pytest.approx(1 - 1 / 9, abs=1e-4)
    assert means["DRO", 1, "usual", ALL_LABELS] == pytest.approx(1 - 1 / 18, abs=1e-4)
    assert means["DRO", 0, "rare"].eq(1).all()
    assert scores["cpu_seconds"].eq(10).all()
    separation = pd.read_csv(tmp_path / "out" / "label-noise-separation.csv").set_index(["method", "seed"])
    assert separation["auc"].to_dict() == {(method, seed): 1 for method in ("ERM", "DRO") for seed in (0, 1)}
    text = page.read_text()
    assert "| DRO | 94.4 (-5.6 [-5.6, -5.6]: harms) | 100.0 (+0.0 [+0.0, +0.0]: no clear difference) |\n" in text
    for picture in ("label-noise.png", "label-noise-cases.png"):
        assert (tmp_path / "out" / picture).stat().st_size > 10_000
    before = len(nnunet.commands)
    run(noisy_study(), seeds=(0, 1), methods=("DRO", RIGHT), **options)
    assert len(nnunet.commands) == before


def made_page(means):
    scores = made_scores(means, trainer="T")
    kinds = ["clean"] * 7 + list(KINDS)
    cases = [
        made_cases(method, "loss", range(10), range(10), kinds, trusted=(0,), seed=seed, rare=(1,))
        for method in means
        for seed in range(3)
    ]
    cases = pd.concat(cases, ignore_index=True)
    study = replace(phantom_study(quick=False), trainers={m: t for m, t in trainers(20).items() if m in means})
    return page_text(scores, cases, separation_table(cases), study, failures={}, name="label-noise")


def test_page_says_what_the_intervals_say():
    page = made_page(
        {
            "ERM": [0.6, 0.7, 0.8],
            RIGHT: [0.9, 0.91, 0.92],
            "DRO": [0.5, 0.61, 0.7],
            "random": [0.6, 0.69, 0.82],
            "L2RW": [0.65, 0.76, 0.85],
        }
    )
    assert "**Were the trainings long enough?** Yes" in page
    assert re.search(r"right labels alone give \+21.0 \[.*?\] points \(no clear difference\)", page)
    assert "**rare (always right labels), against `ERM`:** help: L2RW. harm: DRO. no clear difference: random." in page
    assert "**control, against `ERM`:** help: L2RW. harm: DRO." in page
    assert "never learnt" not in page


def test_page_says_where_right_labels_were_not_learnt():
    page = made_page({"ERM": [0.6, 0.7, 0.0], RIGHT: [0.9, 0.79, 0.9]})
    assert "Not by the criterion: `right` has a Dice of 80 or less in seed 1, control: grey_matter; seed 1" in page
    assert "In the rare pathology it has 86.3 (grey_matter), 86.3 (white" in page
    assert "in any pathology:** ERM, seed 2 (grey_matter)" in page


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [(0.1, 2, "helps"), (-2, -0.1, "harms"), (-1, 1, "no clear difference"), (np.nan, np.nan, "one seed")],
)
def test_a_verdict_is_that_of_the_interval(low, high, says):
    assert verdict(low, high) == says


def test_command_line_says_what_to_put_right_in_one_line(tmp_path, capsys):
    work = tmp_path / "work" / "label-noise-phantoms-quick"
    work.mkdir(parents=True)
    (work / "settings.json").write_text("{}")
    assert main(["--work", str(tmp_path / "work"), "--quick"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("label_noise: `work` must be a new folder")
    assert said.count("\n") == 1


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_quick_run_with_nnunet(tmp_path):
    work, out = tmp_path / "work", tmp_path / "out"
    words = ["--work", str(work), "--out", str(out), "--quick", "--jobs", "1"]
    assert main(words) == 0

    seed = work / "label-noise-phantoms-quick" / "seed0"
    scores = pd.read_csv(out / "label-noise-seeds.csv").set_index(["method", "stratum", "label"])
    for method in QUICK_METHODS:
        rows = pd.read_csv(seed / "evaluation" / method / "scores.csv")
        of_rare = rows[rows["pathology"] == "rare"].groupby("label")["dice"].mean()
        for label, mean in of_rare.items():
            assert scores.loc[(method, "rare", label), "mean"] == pytest.approx(mean, abs=1e-4)
    cases = pd.read_csv(out / "label-noise-cases.csv")
    assert cases["method"].value_counts().to_dict() == {"ERM": 20, "random": 20, "L2RW": 20}
    noise = pd.read_csv(seed / "nnUNet_raw" / "Dataset913_NoisyPhantoms" / NOISE_FILE).set_index("case")["kind"]
    assert cases.set_index("case")["kind"].to_dict() == noise.to_dict()
    (log,) = (seed / "nnUNet_results").rglob("weights.csv")
    seen = pd.read_csv(log).query("epoch > 0 and times_seen > 0")
    mean = (seen["weight"] * seen["times_seen"]).groupby(seen["case"]).sum() / seen.groupby("case")["times_seen"].sum()
    of_l2rw = cases[cases["method"] == "L2RW"].set_index("case")["value"].dropna()
    assert of_l2rw.to_dict() == pytest.approx(mean.to_dict(), abs=1e-5)
    # The folds have the cases that the methods are about.
    for fold, is_of_fold in ((1, noise == "clean"), (2, noise.index.isin(trusted(seed)))):
        (losses,) = (seed / "nnUNet_results").rglob(f"fold_{fold}/hardness.csv")
        assert set(pd.read_csv(losses)["case"]) == set(noise.index[is_of_fold])
    assert "Smoke run" in (out / "label-noise.md").read_text()
    # Nothing that the trainers read says which cases are wrong.
    (training_log,) = [path for path in (seed / "nnUNet_results").rglob("training.csv") if "L2RW" in str(path)]
    assert not any(word in training_log.read_text() for word in (*KINDS, "kind"))
    check_that_a_training_is_repeated(seed, words)


def trusted(seed):
    table = pd.read_csv(seed / "nnUNet_raw" / "Dataset913_NoisyPhantoms" / "cases.csv")
    return table["case"][table["trusted"] == "yes"]


def check_that_a_training_is_repeated(seed, words):
    """The same seed and trainer give the same weights, at the end as at the beginning."""
    (path,) = [
        path for path in Path(seed / "nnUNet_results").rglob("fold_0/checkpoint_final.pth") if "HWS" in str(path)
    ]
    first = read_checkpoint(path, cure="")["network_weights"]
    (seed / "runs" / "ERM.json").unlink()
    assert main(words) == 0
    again = read_checkpoint(path, cure="")["network_weights"]
    assert all((values == again[name]).all() for name, values in first.items())
