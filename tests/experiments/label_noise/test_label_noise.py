import pandas as pd
import pytest
from rich.console import Console

from experiments.label_noise.__main__ import QUICK_METHODS, main, run
from experiments.label_noise.data import (
    KINDS,
    NOISE_FILE,
)
from experiments.label_noise.studies import TRAINERS
from experiments.nnunet_runs import runs as nnunet_runs
from experiments.nnunet_runs.results import ALL_LABELS
from tests.experiments.made_studies import NNUNet, tiny_study


def write_log(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)


WEIGHTS, HARDNESS = ["epoch", "case", "weight", "times_seen"], ["epoch", "case", "loss", "probability", "draws"]


class WithLogs(NNUNet):
    """The stand-in for nnU-Net, which writes what our trainers write about their cases, too."""

    def train(self, trainer, arguments, environment):
        super().train(trainer, arguments, environment)
        (fold,) = self.results(environment).glob(f"{trainer}__*/fold_0")
        cases = ["rare0Tr", "usual1Tr", "usual2Tr", "usual3Tr"]
        rows = [(epoch, case, float(case == "rare0Tr"), 0.25, 1) for epoch in range(2) for case in cases]
        write_log(fold / "hardness.csv", HARDNESS, rows)

    @staticmethod
    def results(environment):
        from pathlib import Path

        return Path(environment["nnUNet_results"]) / "Dataset912_Tiny"


def write_tiny_with_noise(folder, rng):
    from tests.experiments.made_studies import write_tiny

    write_tiny(folder, rng)
    table = pd.read_csv(folder / "cases.csv")
    table.assign(trusted=["yes" if case == "usual1Tr" else "no" for case in table["case"]]).to_csv(
        folder / "cases.csv", index=False
    )
    noise = table[table["split"] == "train"][["case"]].assign(dice=1.0)
    noise.assign(kind=["swapped" if case == "rare0Tr" else "clean" for case in noise["case"]]).to_csv(
        folder / NOISE_FILE, index=False
    )


def test_run_writes_a_page_with_the_numbers_of_its_files_and_goes_on(tmp_path, monkeypatch):
    nnunet = WithLogs()
    nnunet.n_stem = {("nnUNetTrainerHWS_beta10_noIS", "rare0Ts", 0): 5}
    monkeypatch.setattr(nnunet_runs, "run_command", nnunet)
    study = tiny_study(
        name="phantoms",
        by="split",
        rare=(),
        common=("test",),
        labels=("stem", "bud"),
        write=write_tiny_with_noise,
        trainers=TRAINERS,
    )
    options = {"work": tmp_path / "work", "out": tmp_path / "out", "console": Console(quiet=True)}
    page = run(study, seeds=(0,), methods=("DRO",), **options)

    table = pd.read_csv(tmp_path / "out" / "label-noise-all.csv").set_index(["label", "method"])
    # One of five cases has Dice 2/3 for one of two labels.
    assert table.loc[("stem", "DRO"), "mean_difference"] == pytest.approx(-(1 / 3) / 5)
    assert table.loc[(ALL_LABELS, "DRO"), "mean_difference"] == pytest.approx(-(1 / 6) / 5)
    assert table.loc[("bud", "DRO"), "mean_difference"] == 0
    separation = pd.read_csv(tmp_path / "out" / "label-noise-separation.csv").set_index("method")
    assert separation["auc"].to_dict() == {"ERM": 1, "DRO": 1}
    text = page.read_text()
    assert "**DRO** has a mean Dice of 96.7" in text
    assert "(-3.3 [" in text
    assert (tmp_path / "out" / "label-noise.png").stat().st_size > 10_000
    before = len(nnunet.commands)
    run(study, seeds=(0,), methods=("DRO",), **options)
    assert len(nnunet.commands) == before


def test_command_line_says_what_to_put_right_in_one_line(tmp_path, capsys):
    assert main(["--work", str(tmp_path / "work"), "--data", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("label_noise: `data` must be a folder")
    assert said.count("\n") == 1


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_quick_run_with_nnunet(tmp_path):
    work, out = tmp_path / "work", tmp_path / "out"
    assert main(["--work", str(work), "--out", str(out), "--quick"]) == 0

    seed = work / "label-noise-phantoms-quick" / "seed0"
    table = pd.read_csv(out / "label-noise-all.csv").set_index(["label", "method"])
    for method in QUICK_METHODS:
        scores = pd.read_csv(seed / "evaluation" / method / "scores.csv")
        assert table.loc[(ALL_LABELS, method), "mean"] == pytest.approx(scores["dice"].mean())
    cases = pd.read_csv(out / "label-noise-cases.csv")
    assert cases["method"].value_counts().to_dict() == {"ERM": 20, "L2RW": 20}
    noise = pd.read_csv(seed / "nnUNet_raw" / "Dataset913_NoisyPhantoms" / NOISE_FILE).set_index("case")["kind"]
    assert cases.set_index("case")["kind"].to_dict() == noise.to_dict()
    (log,) = (seed / "nnUNet_results").rglob("weights.csv")
    seen = pd.read_csv(log).query("epoch > 0 and times_seen > 0")
    mean = (seen["weight"] * seen["times_seen"]).groupby(seen["case"]).sum() / seen.groupby("case")["times_seen"].sum()
    of_l2rw = cases[cases["method"] == "L2RW"].set_index("case")["value"].dropna()
    assert of_l2rw.to_dict() == pytest.approx(mean.to_dict(), abs=1e-5)
    text = (out / "label-noise.md").read_text()
    assert "Smoke run" in text
    assert "What came out" not in text
    # Nothing that the trainers read says which cases are wrong.
    (training_log,) = [path for path in (seed / "nnUNet_results").rglob("training.csv") if "L2RW" in str(path)]
    assert not any(word in training_log.read_text() for word in (*KINDS, "kind"))
