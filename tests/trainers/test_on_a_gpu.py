"""Whole training steps on a GPU that is played: mixed devices, half precision, and who waits for
the device when."""

import numpy as np
import pytest
import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from nnunet_dro.trainers.registry import trainer_class
from tests.fake_gpu import FakeGPU
from tests.trainers.names import PLAIN_NAMES

#: nnU-Net waits twice: its gradient scaler asks whether a gradient overflowed, and its step returns
#: the loss.
NNUNETS_WAITS = 2
#: Options whose code runs in the step, beyond those of the plain trainers.
WITH_OPTIONS = [
    "nnUNetTrainerHWS_exactIS_normIS_hardPresent_vs0.5_poly1",
    "nnUNetTrainerDRO_cvar0.3_hardCE_la1_plainSGD",
    "nnUNetTrainerLS_alpha0.2_la1",
    "nnUNetTrainerGILS_T2_gamma0.1_rms0.1",
]


@pytest.fixture
def on_gpu(make_trainer, monkeypatch):
    """Make a trainer on a played GPU, and a batch for it."""
    monkeypatch.setenv("nnUNet_compile", "f")

    def make(name, configuration="2d_small", kind="labels"):
        gpu = FakeGPU()
        with gpu:
            cls = nnUNetTrainer if name == "nnUNetTrainer" else trainer_class(name)
            trainer = make_trainer(cls, configuration, kind, device="cuda")
            trainer.initialize()
            # Of some options the loss is made anew there, and put on the GPU.
            loader, _ = trainer.get_dataloaders()
        trainer.network.train()
        return gpu, trainer, next(loader)

    return make


def events_of_a_step(gpu, trainer, batch, *, n_before=1):
    """The record of one step, after others that are the first of their kind."""
    with gpu:
        for _ in range(n_before + 1):
            gpu.forget()
            loss = trainer.train_step(batch)["loss"]
    assert loss == 1, (
        "what comes from this GPU is 1, and memory that was read too early is not a number"
    )
    return gpu.events


def n_waits(events):
    return events.count("wait")


def check_precision(trainer, monkeypatch):
    """From now on, check the losses that the trainer sends to the host."""
    send = trainer.loss.send

    def checked(columns, mean):
        assert columns.losses.dtype == columns.weights.dtype == mean.dtype == torch.float32, (
            "also under autocast"
        )
        assert columns.losses.is_cuda
        send(columns, mean)

    monkeypatch.setattr(trainer.loss, "send", checked)


def test_nnunets_own_step_runs_on_the_played_gpu(on_gpu):
    gpu, trainer, batch = on_gpu("nnUNetTrainer")
    assert events_of_a_step(gpu, trainer, batch) == ["wait"] * NNUNETS_WAITS
    assert {"convolution", "convolution_backward"} <= gpu.half

    gradients = [
        parameter.grad for parameter in trainer.network.parameters() if parameter.grad is not None
    ]
    assert len(gradients) > 10
    assert all(gradient.is_cuda and gradient.dtype == torch.float32 for gradient in gradients)


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_a_step_waits_for_the_device_as_often_as_nnunets(on_gpu, name, monkeypatch):
    """And the copy of the losses is queued, and its event recorded, before the first wait; it is
    read after the last.

    GILS makes two of nnU-Net's steps. The first iterations of L2RW are timed, which waits.
    """
    gpu, trainer, batch = on_gpu(name)
    check_precision(trainer, monkeypatch)
    events = events_of_a_step(gpu, trainer, batch, n_before=4 if "L2RW" in name else 1)

    n_steps = 2 if "GILS" in name else 1

    assert events == ["copy", "event", *["wait"] * NNUNETS_WAITS, "event wait"] * n_steps, (
        gpu.places
    )
    assert {"convolution", "convolution_backward"} <= gpu.half

    seen = trainer.hardness_log.table.losses
    assert seen[1] == 1, "the losses of the step, read after their copy"
    assert np.isnan(np.delete(seen, 1)).all()


@pytest.mark.parametrize(
    ("configuration", "kind"), [("2d_small", "regions_ignore"), ("3d_small", "ignore")]
)
@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_options_regions_and_an_ignore_label_add_no_wait(
    on_gpu, name, configuration, kind, monkeypatch
):
    gpu, trainer, batch = on_gpu(name, configuration, kind)
    check_precision(trainer, monkeypatch)
    events = events_of_a_step(gpu, trainer, batch, n_before=0)
    n_steps = 2 if "GILS" in name else 1

    examples = (
        4 if "GILS" in name else 0
    )  # the first batch of an epoch is looked at for perturbation.png

    assert n_waits(events) == n_steps * NNUNETS_WAITS + examples, gpu.places
    assert trainer.hardness_log.table.losses[1] == 1


@pytest.mark.parametrize("at_once", [False, True], ids=["case by case", "at once"])
def test_learning_to_reweight_waits_no_oftener_in_either_way(on_gpu, at_once):
    gpu, trainer, batch = on_gpu("nnUNetTrainerL2RW", "3d_small", "regions")
    trainer._learned = trainer._learning()

    trainer._learned.at_once = at_once

    assert n_waits(events_of_a_step(gpu, trainer, batch, n_before=0)) == NNUNETS_WAITS, gpu.places
    assert trainer._learned.not_at_once is None


@pytest.mark.parametrize("name", ["nnUNetTrainerDRO", "nnUNetTrainerL2RW", "nnUNetTrainerGILS"])
def test_an_overflow_in_half_precision_skips_the_optimiser_alone(on_gpu, name):
    gpu, trainer, batch = on_gpu(name)
    steps = []
    trainer.optimizer.register_step_post_hook(lambda *_: steps.append("step"))

    with gpu:
        trainer.train_step(batch)
        n_steps = len(steps)
        gpu.overflows = True
        trainer.train_step(batch)

    assert n_steps == len(steps) == (2 if "GILS" in name else 1)
    assert trainer.hardness_log.table.losses[1] == 1


ACTIONS = {
    "wait": [
        lambda x, mask: float(x.sum()),
        lambda x, mask: bool(mask.any()),
        lambda x, mask: x.cpu(),
        lambda x, mask: x.tolist(),
        lambda x, mask: x[[0, 1]],
        lambda x, mask: x + torch.tensor([1.0, 2.0, 3.0], device="cuda"),
        lambda x, mask: torch.ones(3).to("cuda"),
        lambda x, mask: x.index_put_((mask,), x),
        lambda x, mask: torch.cuda.synchronize(),
    ],
    "pass": [
        lambda x, mask: x.masked_fill(mask, 0.0),
        lambda x, mask: torch.where(mask, x, x.mean()),
        lambda x, mask: x[1:].clamp_max(2) / 3,
        lambda x, mask: torch.ones(3).to("cuda", non_blocking=True),
        lambda x, mask: x.masked_fill_(mask, 1.0).zero_(),
    ],
    "are refused": [  # mixed devices, and sizes that depend on data
        lambda x, mask: x + torch.ones(3),
        lambda x, mask: x[mask],
        lambda x, mask: torch.cat([x, torch.ones(3)]),
        lambda x, mask: mask.nonzero(),
        lambda x, mask: torch.equal(x, x),
    ],
}


@pytest.mark.parametrize(
    ("what", "action"), [(what, action) for what, of in ACTIONS.items() for action in of]
)
def test_the_played_gpu_knows_what_waits_and_what_cannot_be(what, action):
    with FakeGPU() as gpu:
        x = torch.ones(3, device="cuda")
        mask = x > 0
        if what == "are refused":
            with pytest.raises((RuntimeError, NotImplementedError)):
                action(x, mask)
        else:
            assert gpu.events == []
            action(x, mask)
            assert set(gpu.events) == ({"wait"} if what == "wait" else set())
