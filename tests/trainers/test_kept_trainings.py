"""Trainings of earlier versions go on."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.kept.folders import VERSION_0_2

TRAININGS = sorted((VERSION_0_2 / "trainings").iterdir())


@pytest.mark.parametrize("kept", TRAININGS, ids=lambda folder: folder.name)
def test_a_training_of_version_0_2_goes_on(make_trainer, kept):
    subvolumes = (kept / "subvolumes.csv").exists()
    # The default has changed: its trainings go on under the name of what it was.
    name = kept.name.replace("DRO_2epochs", "DRO_share0.5_2epochs")
    trainer = make_trainer(name, "3d_small" if subvolumes else "2d_small")
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
        np.testing.assert_allclose(table.probabilities(), last["probability"], rtol=1e-4)
    trainer.on_epoch_start()
    trainer.on_train_epoch_start()
    loss = trainer.train_step(next(trainer.dataloader_train))

    assert np.isfinite(loss["loss"])

    trainer.on_train_epoch_end([loss])

    for name, earlier in before.items():
        after = pd.read_csv(folder / name, dtype={"case": str})
        # Later versions may have more columns.
        after = after[[column for column in after if column in set(earlier)]]
        assert list(after.columns) == list(earlier.columns), name
        if "epoch" in earlier:
            assert sorted(after["epoch"].unique()) == [0, 1, 2], name
            same = after.query("epoch < 2").reset_index(drop=True)
            pd.testing.assert_frame_equal(same, earlier, rtol=1e-5, check_dtype=False)

    assert [row["epoch"] for row in trainer.hardness_log.rows] == [0, 1, 2]
