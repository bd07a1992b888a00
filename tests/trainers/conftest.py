from collections.abc import Callable

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def seed() -> None:
    """Networks, patches and draws are the same each time, whatever ran before."""
    torch.manual_seed(0)
    np.random.seed(0)


@pytest.fixture
def start(make_trainer) -> Callable:
    """Make a trainer, as `make_trainer` does, that is ready for its first step; returns it and its
    data loader."""

    def make(cls, *arguments, **settings):
        torch.manual_seed(0)
        np.random.seed(0)
        trainer = make_trainer(cls, *arguments, **settings)
        trainer.initialize()
        trainer.network.train()
        return trainer, trainer.get_dataloaders()[0]

    return make


@pytest.fixture
def preprocessed_table(project):
    """A case table in the preprocessed folder, which goes before that of the raw folder."""
    path = project("labels").preprocessed / "cases.csv"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def without_case_table(project):
    """The raw dataset has no case table while a test runs."""
    raw = project("labels").raw / "cases.csv"
    away = raw.rename(raw.with_suffix(".away"))
    yield
    away.rename(raw)
