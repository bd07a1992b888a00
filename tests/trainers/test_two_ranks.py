"""Two ranks through nnU-Net's own `run_ddp`, killed and continued: see `tests.trainers.two_ranks`."""

import numpy as np
import pandas as pd
import pytest

from tests.nnunet_project import run_module

pytestmark = pytest.mark.slow
N_EPOCHS = 2


LENGTH = f"_{N_EPOCHS}epochs_3iters"
CONFIGURATIONS = {
    f"nnUNetTrainerDRO_beta10_explore0.3{LENGTH}": "2d_small",
    f"nnUNetTrainerGroupDRO_site{LENGTH}": "3d_small",
    f"nnUNetTrainerIW_site_share0.5_power0.5{LENGTH}": "3d_small",
    f"nnUNetTrainerL2RW{LENGTH}": "3d_small",
}


@pytest.fixture(scope="module")
def all_trained(project, tmp_path_factory):
    here = project("labels")
    folder = tmp_path_factory.mktemp("ranks")
    trainings = [f"{name}={configuration}" for name, configuration in CONFIGURATIONS.items()]
    run_module("tests.trainers.two_ranks", here.dataset_id, folder, *trainings)
    return here, folder


@pytest.fixture(params=CONFIGURATIONS)
def trained(request, all_trained):
    """What each rank had at each moment, and the folder of the fold."""
    here, folder = all_trained
    kept = {path.stem: np.load(path) for path in (folder / request.param).glob("*.npz")}
    return kept, here.fold_folder(request.param, CONFIGURATIONS[request.param])


@pytest.mark.parametrize("when", ["killed", "continued", "ended"])
def test_both_ranks_have_the_same_table_and_network(trained, when):
    first, second = (trained[0][f"{when}{rank}"] for rank in range(2))
    np.testing.assert_array_equal(first["losses"], second["losses"])
    np.testing.assert_array_equal(first["probabilities"], second["probabilities"])
    np.testing.assert_array_equal(first["parameters"], second["parameters"])
    assert first["is_wrapped"]
    assert np.isfinite(first["losses"]).any()


def test_both_ranks_pool_the_patches_of_all_and_the_checkpoint_has_them(trained):
    kept, fold = trained
    pools = [name for name in ("nnUNetTrainerDRO", "nnUNetTrainerIW") if name in str(fold)]
    assert ("sums" in kept["ended0"].files) == bool(pools)
    if not pools:
        return

    for when in ("killed", "continued", "ended"):
        for name in ("sums", "predictions"):
            np.testing.assert_array_equal(kept[f"{when}0"][name], kept[f"{when}1"][name])
        has_pool = kept[f"{when}1"]["sums"][:, -1] > 0
        np.testing.assert_array_equal(has_pool, np.isfinite(kept[f"{when}1"]["losses"]))
    for name in ("sums", "predictions"):
        np.testing.assert_array_equal(kept["continued0"][name], kept["killed0"][name])


def test_each_rank_continues_where_the_killed_training_was(trained):
    kept, _ = trained
    for rank in range(2):
        before = kept[f"killed{rank}"]
        after = kept[f"continued{rank}"]
        assert before["epoch"] == after["epoch"] == 1
        for name in ("losses", "probabilities", "parameters"):
            np.testing.assert_array_equal(after[name], before[name])
        assert not np.array_equal(kept[f"ended{rank}"]["losses"], after["losses"])


def test_the_first_rank_alone_writes_the_logs_and_the_checkpoint(trained):
    kept, fold = trained
    rows = pd.read_csv(fold / "hardness.csv", dtype={"case": str})

    assert rows["epoch"].tolist() == sorted(list(range(N_EPOCHS)) * 8)
    assert len(pd.read_csv(fold / "training.csv")) == N_EPOCHS
    assert (fold / "checkpoint_final.pth").exists()
    assert not list(fold.glob("*.partial*"))
    assert [int(kept[f"{when}0"]["summaries"]) for when in ("continued", "ended")] == [1, N_EPOCHS]
    assert [int(kept[f"{when}1"]["summaries"]) for when in ("continued", "ended")] == [1, 1]
