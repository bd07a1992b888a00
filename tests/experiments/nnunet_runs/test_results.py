import pytest

from experiments.nnunet_runs.results import collect
from experiments.nnunet_runs.runs import SeedRuns
from tests.experiments.made_studies import N_TEST, tiny_study

FOUND = {
    ("nnUNetTrainerHWS_beta0", "rare0Ts", 0): 5,
    ("nnUNetTrainerHWS_beta0", "rare0Ts", 1): 0,
}


def test_times_are_ratios_to_the_baseline_of_the_seed(start, nnunet, tmp_path):
    start(seeds=(0,))

    runs = [SeedRuns(tmp_path / "work" / "tiny" / "seed0", tiny_study(), 0)]
    times = collect(runs, ("ERM", "beta10")).times.set_index("method")
    # 30 s of the processor and 2 s for the fastest epoch, against 10 s and 1 s; ten iterations, five an epoch.
    assert times.loc["beta10", ["cpu_ms", "cpu_ratio", "wall_ms", "wall_ratio"]].tolist() == [3000, 3, 400, 2]
    assert times.loc["ERM", ["cpu_ratio", "wall_ratio"]].tolist() == [1, 1]
    assert "| beta10 | nnUNetTrainerHWS_beta10_2epochs_5iters |" in (
        tmp_path / "out" / "segmentation-tiny.md"
    ).read_text().replace("  ", " ")


def test_nothing_to_compare_with_is_said(start, nnunet):
    nnunet.failing = {"nnUNetTrainerHWS_beta10_2epochs_5iters"}
    with pytest.raises(ValueError, match="must have finished on a seed that ERM has finished, got none"):
        start()


def test_cases_of_all_seeds_are_told_apart_by_their_seed(start, nnunet, tmp_path):
    nnunet.n_stem = FOUND
    start()
    runs = [SeedRuns(tmp_path / "work" / "tiny" / f"seed{seed}", tiny_study(), seed) for seed in (0, 1)]

    dice = collect(runs, ("ERM", "beta10")).dice

    of_stem = dice[(dice["label"] == "stem") & (dice["method"] == "ERM")].set_index(["seed", "case"])
    assert len(of_stem) == 2 * sum(N_TEST.values())
    assert of_stem.loc[(0, "rare0Ts"), "dice"] == pytest.approx(2 / 3)
    assert of_stem.loc[(1, "rare0Ts"), "dice"] == 0
    assert of_stem["stratum"].value_counts().to_dict() == {"rare": 4, "usual": 6}
