"""Trainings of earlier versions go on."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.sampling import GroupDRO
from nnunet_dro.trainers.registry import trainer_class
from tests.kept.folders import VERSION_0_1

TRAININGS = sorted((VERSION_0_1 / "trainings").iterdir())


def go_on(make_trainer, kept, configuration):
    """Continue a training under the name that it was begun with."""
    trainer = make_trainer(trainer_class(kept.name), configuration)
    trainer.load_checkpoint(str(kept / "checkpoint_final.pth"))
    trainer.on_train_start()


@pytest.mark.parametrize("kept", TRAININGS, ids=lambda folder: folder.name)
def test_a_training_of_version_0_1_goes_on(make_trainer, kept):
    subvolumes = (kept / "subvolumes.csv").exists()
    configuration = "3d_small" if subvolumes else "2d_small"
    name = kept.name.replace("nnUNetTrainerDRO", "nnUNetTrainerHWS")
    if name != kept.name:
        with pytest.raises(ValueError, match=name):
            go_on(make_trainer, kept, configuration)
    trainer = make_trainer(trainer_class(name), configuration)
    folder = Path(trainer.output_folder)
    for file in kept.iterdir():
        shutil.copy(file, folder)
    before = {path.name: pd.read_csv(path, dtype={"case": str}) for path in kept.glob("*.csv")}

    trainer.load_checkpoint(str(folder / "checkpoint_final.pth"))
    assert trainer.current_epoch == 2
    trainer.num_epochs = 3
    trainer.on_train_start()
    last = before["hardness.csv"].query("epoch == 1")
    if not subvolumes:
        table = trainer.hardness_log.table
        np.testing.assert_allclose(table.losses, last["loss"], rtol=1e-5)
        table.exploration = 1e-4  # what these trainings had
        probabilities = table.probabilities()
        if isinstance(table.rule, GroupDRO):  # the weights decided the draws, and are in the loss now
            probabilities = probabilities * table.rule.loss_weights(np.arange(len(table)), probabilities)
        np.testing.assert_allclose(probabilities, last["probability"], rtol=1e-4)
    trainer.on_epoch_start()
    trainer.on_train_epoch_start()
    loss = trainer.train_step(next(trainer.dataloader_train))
    assert np.isfinite(loss["loss"])
    trainer.on_train_epoch_end([loss])

    for name, earlier in before.items():
        after = pd.read_csv(folder / name, dtype={"case": str})
        new = [column for column in after.columns if column not in earlier.columns]
        assert not new or (name == "training.csv" and new == ["mean_staleness", "largest_staleness"])
        assert after.query("epoch < 2")[new].isna().all(axis=None) if new else True, "not known then"
        after = after.drop(columns=new)
        assert list(after.columns) == list(earlier.columns), name
        if "epoch" in earlier:
            assert sorted(after["epoch"].unique()) == [0, 1, 2], name
            same = after.query("epoch < 2").reset_index(drop=True)
            pd.testing.assert_frame_equal(same, earlier, rtol=1e-5, check_dtype=False)
    assert [summary.epoch for summary in trainer.hardness_log.summaries] == [0, 1, 2]
