import subprocess
import sys

import numpy as np
import pytest
from nnunetv2.training.dataloading.data_loader import nnUNetDataLoader

from nnunet_dro.sampling import HardnessTable
from nnunet_dro.trainers.dataloading import HardnessDataLoader
from nnunet_dro.trainers.registry import trainer_class


@pytest.mark.parametrize("start_method", ["fork", "spawn", "forkserver"])
def test_workers_change_what_they_draw(start_method):
    command = [sys.executable, "-m", "tests.trainers.worker_scenario", start_method]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    before, hard, after, n_unseen = map(float, result.stdout.split())
    assert before < 0.15, "nothing is hard yet: 1 in 20"
    assert hard > 0.6, "the hard case is most of what is drawn, as soon as its loss is known"
    assert after < 0.25, "and no longer once it is easy"
    assert n_unseen == 0


def test_batches_carry_their_draws(make_trainer):
    trainer = make_trainer(trainer_class("nnUNetTrainerDRO_beta10"))
    trainer.initialize()
    loader, _ = trainer.get_dataloaders()
    table = trainer.hardness_log.table
    first = next(loader)
    assert first["stale_losses"].isnan().all()
    assert first["draw_probabilities"] == pytest.approx([1 / 8, 1 / 7])
    table.update(np.arange(len(table)), np.linspace(0, 1, len(table)))
    batch = next(loader)
    indices = batch["case_indices"].numpy()
    assert list(batch["keys"]) == [table.cases[i] for i in indices]
    np.testing.assert_allclose(batch["stale_losses"].numpy(), table.losses[indices], rtol=1e-6)
    np.testing.assert_allclose(batch["draw_probabilities"], table.probabilities()[indices])


def test_loader_takes_over_everything_that_nnunet_set_up(make_trainer):
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    trainer = make_trainer(nnUNetTrainer)
    trainer.initialize()
    plain = trainer.get_dataloaders()[0].data_loader
    loader = HardnessDataLoader.taking_over(plain, HardnessTable(plain.indices, beta=1.0))
    for name, value in vars(plain).items():
        assert name == "get_do_oversample" or getattr(loader, name) is value
    assert loader.get_do_oversample.__self__ is loader


def test_a_loader_we_know_nothing_of_is_refused():
    class Theirs(nnUNetDataLoader):
        def __init__(self):
            pass

    with pytest.raises(TypeError, match=r"class MyLoader\(DrawsByHardness, Theirs\)"):
        HardnessDataLoader.taking_over(Theirs(), HardnessTable(["a"], beta=1.0))


def test_siblings_do_not_draw_the_same(make_trainer):
    trainer = make_trainer(trainer_class("nnUNetTrainerDRO_beta0"))
    trainer.initialize()
    loader = trainer.get_dataloaders()[0].data_loader
    loader.table.update(np.arange(len(loader.table)), np.zeros(len(loader.table)))
    drawn = []
    for seed in (1, 1, 2):  # what nnU-Net's augmenter does in each worker
        np.random.seed(seed)
        loader.set_thread_id(0)
        drawn.append([tuple(loader.get_indices()) for _ in range(10)])
    assert drawn[0] == drawn[1] != drawn[2]
