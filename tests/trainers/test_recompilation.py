"""What `torch.compile` compiles, and when: counted on the CPU, where nnU-Net itself does not
compile."""

from dataclasses import fields
from functools import partial

import numpy as np
import pytest
import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
from torch._dynamo.testing import CompileCounterWithBackend

from nnunet_dro.trainers.case_columns import ENTRY, CaseColumns
from nnunet_dro.trainers.registry import trainer_class

# PyTorch's own, while it compiles nnU-Net's loss or ours.
pytestmark = pytest.mark.filterwarnings("ignore")
#: Those whose compiled code differs, or that call it in another way.
NAMES = ["nnUNetTrainerHWS_normIS_hardPresent_poly1", "nnUNetTrainerGILS", "nnUNetTrainerL2RW"]


@pytest.fixture
def compiled(make_trainer, monkeypatch):
    """Make a trainer that compiles as on CUDA, with a backend that counts the graphs instead of
    making kernels."""
    torch._dynamo.reset()

    def make(name, configuration="2d_small"):
        counter = CompileCounterWithBackend("aot_eager")
        monkeypatch.setattr(torch, "compile", partial(_real_compile, backend=counter))
        cls = nnUNetTrainer if name == "nnUNetTrainer" else trainer_class(name)
        monkeypatch.setattr(cls, "_do_i_compile", lambda self: True)
        trainer = make_trainer(cls, configuration)
        trainer.initialize()
        trainer.network.train()
        trainer.get_dataloaders()
        return trainer, counter

    yield make
    torch._dynamo.reset()


_real_compile = torch.compile


def batch_of(trainer, seed, n_cases):
    """A batch whose images, labels, draws and weights depend on the seed."""
    generator = torch.Generator().manual_seed(seed)
    shape = trainer.configuration_manager.patch_size
    scales = trainer._get_deep_supervision_scales()
    sizes = [
        [round(n * factor) for n, factor in zip(shape, scale, strict=True)] for scale in scales
    ]
    targets = [torch.randint(0, 3, (n_cases, 1, *size), generator=generator) for size in sizes]
    columns = {
        column.name: torch.rand(n_cases, generator=generator) for column in fields(CaseColumns)
    }
    indices = torch.randint(0, 8, (n_cases,), generator=generator)
    betas = torch.full((n_cases,), float(seed))
    draws = CaseColumns(**{**columns, "indices": indices, "betas": betas})
    return {
        "data": torch.randn(n_cases, 1, *shape, generator=generator),
        "target": targets,
        "keys": [f"case_{i}" for i in range(n_cases)],
        ENTRY: draws.rows(),
    }


def graphs_of_steps(trainer, counter, seeds, n_cases):
    """How many graphs had been compiled after each step."""
    counts = []
    for seed in seeds:
        batch = batch_of(trainer, seed, n_cases)
        assert np.isfinite(trainer.train_step(batch)["loss"])
        counts.append(counter.frame_count)
    return counts


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_compiled_again_when_batches_draws_and_weights_change(compiled, name):
    """The first step compiles the network and the loss; L2RW tries its other way in the second."""
    trainer, counter = compiled(name)
    counts = graphs_of_steps(trainer, counter, range(4), n_cases=6)

    assert counts[0] > 0
    assert counts[-1] == counts[1 if "L2RW" in name else 0]


def test_another_batch_size_compiles_once_more_and_then_never(compiled):
    """As with nnU-Net's own trainer: from its second size on, PyTorch compiles for all sizes."""
    for name in ("nnUNetTrainer", "nnUNetTrainerDRO_hardPresent"):
        torch._dynamo.reset()
        trainer, counter = compiled(name)
        counts = [
            graphs_of_steps(trainer, counter, [i], n_cases=n)[0]
            for i, n in enumerate((6, 6, 4, 5, 3))
        ]
        first, second, *others = counts
        assert first == second < others[0] == others[-1]
    assert first == 3, "the network, the sums over the voxels, and what follows from them"
