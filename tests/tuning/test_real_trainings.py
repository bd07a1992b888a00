"""The command with nnU-Net's own trainings."""

import pandas as pd
import pytest

from tests.commands import done, run

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("forked")
def test_a_training_of_nnunet_and_its_repetition(project):
    here = project("labels")
    options = (
        "--option beta:1:100:log --option chi2 --epochs 1 --iterations 2 --trials 1 --repeat 1"
    )
    words = f"tune {here.dataset_id} 2d_small 0 --trainer HWS --device cpu {options}".split()

    result = done(run(*words, "--objective", "p10 by site worst"))

    folder = (
        here.root
        / "results"
        / here.dataset
        / "tuning"
        / "HWS_1epochs_2iters__nnUNetPlans__2d_small__fold_0"
    )
    trials = pd.read_csv(folder / "trials.csv")

    assert trials["state"].tolist() == ["complete"] * 2
    assert trials["repeat_of"].tolist()[1:] == [0]
    assert trials["value"].between(0, 1).all()
    assert (trials["epochs"] == 1).all()

    (trainer,) = set(trials["trainer"])
    assert result.stdout.splitlines()[-1] == trainer

    # A line per trial, no warnings; a slow machine also says now and then how far it is.
    lines = [line for line in result.stderr.splitlines() if not line.endswith("min left")]
    assert [line.split(":")[0] for line in lines] == ["trial 0", "trial 1"]

    page = (folder / "study.html").read_text()
    assert trainer in page
    assert "<h2>History</h2>" in page

    fold = here.fold_folder(trainer, "2d_small")
    again = folder / "repeats" / "1" / fold.relative_to(here.root / "results")

    assert (again / "validation" / "summary.json").exists()
    # Nothing is seeded: the two trainings differ.
    assert (fold / "hardness.csv").read_text() != (again / "hardness.csv").read_text()
