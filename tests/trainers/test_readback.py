"""The losses of a step come from a GPU by a copy that has ended when they are read; a GPU that is played here."""

import math
import types

import numpy as np
import pytest
import torch
from torch import nn

from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.registry import trainer_class
from nnunet_dro.trainers.weighted_loss import HardnessWeightedLoss
from tests.trainers.draws import cases_of_step


class OnGPU(torch.Tensor):
    """A tensor that says it is on a GPU, and so does what is computed from it."""

    device = property(lambda self: torch.device("cuda"))


class PlayedGPU:
    """Copies into pinned memory wait in a queue, as on a busy GPU; an event waits for what was queued before it."""

    def __init__(self):
        self.queue = []
        self.copies = self.waits = 0

    def empty(self, shape, *, dtype, pin_memory):
        assert pin_memory
        gpu, memory = self, torch.full(tuple(shape), math.nan, dtype=dtype)

        class Pinned(torch.Tensor):
            def copy_(self, values, non_blocking=False):
                assert non_blocking, "a blocking copy makes the training wait"
                gpu.copies += 1
                gpu.queue.append(lambda: torch.Tensor.copy_(memory, values.as_subclass(torch.Tensor)))
                return self

        return memory.as_subclass(Pinned)

    def make_event(self):
        event = types.SimpleNamespace(n_before=None)

        def record(stream=None):
            event.n_before = len(self.queue)

        def synchronize():
            assert event.n_before is not None, "an event that was not recorded waits for nothing"
            self.waits += 1
            for done in self.queue[: event.n_before]:
                done()

        event.record, event.synchronize = record, synchronize
        return event


@pytest.fixture
def gpu(monkeypatch):
    played, empty = PlayedGPU(), torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda *size, **named: (played.empty if "pin_memory" in named else empty)(*size, **named)
    )
    monkeypatch.setattr(torch.cuda, "Event", played.make_event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: None)
    return played


def columns():
    cases = cases_of_step([3, 1], losses=[0.25, -1.5], stale_losses=[math.nan, 2.0], clipped=[0, 1], weights=[1, 0.5])
    return CaseColumns(*(column.as_subclass(OnGPU) for column in vars(cases).values()))


def weighted_loss():
    return HardnessWeightedLoss(nn.Identity(), nn.Identity(), importance=None, max_cases=2, is_ddp=False)


def test_the_losses_are_read_after_their_copy_has_ended(gpu):
    loss = weighted_loss()
    for mean in (0.75, 0.5):
        loss.send(columns(), torch.tensor(mean).as_subclass(OnGPU))
        cases, mean_loss = loss.step()
        assert cases.indices.tolist() == [3, 1]
        assert cases.losses.tolist() == [0.25, -1.5]
        assert mean_loss == mean
    assert (gpu.copies, gpu.waits) == (2, 2)


def test_on_the_cpu_nothing_is_waited_for(gpu):
    loss = weighted_loss()
    on_cpu = CaseColumns(*(column.as_subclass(torch.Tensor) for column in vars(columns()).values()))
    loss.send(on_cpu, torch.tensor(0.75))
    assert loss.step()[0].losses.tolist() == [0.25, -1.5]
    assert (gpu.copies, gpu.waits) == (0, 0)


def test_learning_to_reweight_sends_its_losses_before_it_waits_for_the_device(make_trainer, monkeypatch):
    """It asks the device whether to make a step; the copy is in front of that question, and has ended with it."""
    trainer = make_trainer(trainer_class("nnUNetTrainerL2RW"), "2d_small")
    trainer.initialize()
    loader, _ = trainer.get_dataloaders()
    order = []
    for owner, name in ((trainer.loss, "send"), (trainer.loss, "step"), (trainer, "_step_along")):
        original = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *values, name=name, call=original: (order.append(name), call(*values))[1]
        )
    assert np.isfinite(trainer.train_step(next(loader))["loss"])
    assert order == ["send", "_step_along", "step"]
