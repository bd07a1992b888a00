import json
import shutil

import pytest


@pytest.fixture
def finished(make_trainer, project):
    """Trains a network for some iterations and leaves the fold's folder as nnUNetv2_train does."""

    def make(configuration="3d_small", kind="labels", *, cls=None, n_iterations=20):
        from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

        trainer = make_trainer(cls or nnUNetTrainer, configuration, kind)
        trainer.initialize()
        loader, _ = trainer.get_dataloaders()
        trainer.network.train()
        for _ in range(n_iterations):
            trainer.train_step(next(loader))
        here = project(kind)
        folder = here.fold_folder(type(trainer).__name__, configuration)
        trainer.save_checkpoint(str(folder / "checkpoint_final.pth"))
        (folder.parent / "plans.json").write_text(json.dumps(trainer.plans_manager.plans))
        shutil.copyfile(here.preprocessed / "dataset.json", folder.parent / "dataset.json")
        return folder

    return make
