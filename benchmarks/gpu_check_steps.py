"""Sections of `gpu_check.py` about what a training step computes."""

import itertools
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
from random_trainers import (
    Setting,
    dataset_json,
    forget_everything_compiled,
    make_batch,
    make_trainer,
)
from torch import Tensor
from torch.backends import cudnn

from nnunet_dro.trainers.case_columns import CaseColumns

SMALL = {
    "cuda": {
        "2d": Setting((128, 96), 6, (16, 32, 64, 128), True),
        "3d": Setting((64, 64, 64), 2, (16, 32, 64, 128), False),
    },
    "cpu": {
        "2d": Setting((32, 32), 4, (4, 8, 8), True),
        "3d": Setting((16, 16, 16), 2, (4, 8, 8), False),
    },
}
N_STEPS = 20
#: Largest relative difference of the weights that 20 steps may leave: in single precision, and in
#: half precision, where two trainings of nnUNetTrainer differ as well.
SINGLE_LIMIT = 1e-3
HALF_LIMIT = 0.05
SIGNALS = (
    "nnUNetTrainerDRO",
    "nnUNetTrainerDRO_hardPresent",
    "nnUNetTrainerDRO_poly1",
    "nnUNetTrainerLS",
)
#: A scale of the loss at which every gradient overflows in half precision.
OVERFLOW = 2.0**60


def steps_of(trainer: Any) -> list[Any]:
    """The list of steps that the trainer will have stored."""
    steps: list[Any] = []
    record = trainer.hardness_log.record
    trainer.hardness_log.record = lambda cases: (steps.append(cases), record(cases))
    return steps


def race(findings: Any) -> None:
    """The losses that arrive are those of the batch that was trained on.

    Their copy had ended when they were read.
    """
    setting = SMALL[findings.device.type]["2d"]
    for name in ("nnUNetTrainerDRO", "nnUNetTrainerGILS_T1", "nnUNetTrainerL2RW"):
        trainer: Any = make_trainer(name, setting, findings.device, compiled=False)
        steps = steps_of(trainer)
        n_wrong = 0
        for i in range(N_STEPS):
            batch = make_batch(trainer, setting, seed=100 + i)
            n_before = len(steps)
            try:
                trainer.train_step(batch)
            except (ValueError, IndexError):  # numbers that are no indices
                n_wrong += 1
                continue
            expected = CaseColumns.in_batch(batch).indices.tolist()
            is_right = len(steps) > n_before and steps[-1].indices.tolist() == expected
            n_wrong += not (is_right and np.isfinite(steps[-1].losses).all())
        findings.check(f"race {name}", n_wrong == 0, iterations=N_STEPS, of_another_batch=n_wrong)


def parity(findings: Any) -> None:
    """Beta 0 trains nnUNetTrainer's weights.

    Up to rounding, or in half precision to what two runs of it differ by.

    Importance weights train others, by more than this allows.
    """
    cudnn.benchmark = False
    cudnn.deterministic = True
    cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    modes = ("single precision",)
    if findings.is_gpu:
        modes = ("single precision", "mixed precision", "compiled")
    for (dimensions, setting), mode in itertools.product(
        SMALL[findings.device.type].items(), modes
    ):
        what = f"parity {dimensions}, {mode}"
        if not findings.is_late(what):
            _check_parity(findings, what, setting, mode)


def _check_parity(findings: Any, what: str, setting: Setting, mode: str) -> None:
    # Autocast to single precision changes nothing.
    is_single = mode == "single precision"
    torch.set_autocast_dtype("cuda", torch.float32 if is_single else torch.float16)
    try:
        start, plain, losses = _trained("nnUNetTrainer", setting, findings.device, mode)
        _, again, _ = _trained("nnUNetTrainer", setting, findings.device, mode)
        _, mine, my_losses = _trained("nnUNetTrainerDRO_beta0", setting, findings.device, mode)
        _, weighted, _ = _trained("nnUNetTrainerHWS", setting, findings.device, mode, beta=100.0)
    finally:
        torch.set_autocast_dtype("cuda", torch.float16)
    moved = (plain - start).norm()
    between_runs, difference, by_weights = (
        float((other - plain).norm() / moved) for other in (again, mine, weighted)
    )
    limit = SINGLE_LIMIT if is_single else max(HALF_LIMIT, 5 * between_runs)
    findings.check(
        what,
        difference < limit < by_weights and np.isfinite(losses).all(),
        difference=difference,
        difference_of_two_plain_runs=between_runs,
        difference_with_weights=by_weights,
        largest_difference_of_losses=float(np.abs(np.subtract(losses, my_losses)).max()),
    )


def _trained(
    name: str, setting: Setting, device: torch.device, mode: str, *, beta: float = 0.0
) -> tuple[Tensor, Tensor, list[float]]:
    """The weights before and after training, and the losses."""
    forget_everything_compiled()
    trainer = make_trainer(name, setting, device, compiled=mode == "compiled")
    if mode == "single precision":
        trainer.grad_scaler = None
    start = weights_of(trainer)
    batches = [make_batch(trainer, setting, seed, beta=beta) for seed in range(N_STEPS)]
    losses = [float(trainer.train_step(batch)["loss"]) for batch in batches]
    return start, weights_of(trainer), losses


def weights_of(trainer: nnUNetTrainer) -> Tensor:
    """All parameters of the network, flat."""
    return torch.cat(
        [
            parameter.detach().float().reshape(-1).clone()
            for parameter in trainer.network.parameters()
        ]
    )


def amp(findings: Any) -> None:
    """Under autocast the losses of cases are single precision and right.

    An overflow skips the step, not the losses.
    """
    setting = SMALL[findings.device.type]["3d"]
    for regions, ignore, batch_dice in itertools.product((False, True), repeat=3):
        kind = " and ".join(
            word
            for word, holds in (
                ("regions", regions),
                ("ignore", ignore),
                ("batch Dice", batch_dice),
            )
            if holds
        )
        for name in SIGNALS:
            trainer: Any = make_trainer(
                name,
                setting._replace(batch_dice=batch_dice),
                findings.device,
                dataset=dataset_json(regions=regions, ignore=ignore),
                compiled=False,
            )
            hardness, loss, is_single = _errors_of_losses(
                trainer, findings, regions=regions, ignore=ignore
            )
            passed = is_single and max(hardness, loss) < 1e-4
            findings.check(
                f"amp {name}, {kind or 'labels'}", passed, hardness_error=hardness, loss_error=loss
            )
    for name in (
        ("nnUNetTrainerDRO", "nnUNetTrainerL2RW", "nnUNetTrainerGILS_T1") if findings.is_gpu else ()
    ):
        _overflow(findings, name, setting)


def _errors_of_losses(
    trainer: Any, findings: Any, *, regions: bool, ignore: bool
) -> tuple[float, float, bool]:
    """Relative errors of hardness and loss to double precision, and whether both are single."""
    edge = 96 if findings.is_gpu else 16
    generator = torch.Generator().manual_seed(1)
    n_heads = trainer.label_manager.num_segmentation_heads
    logits = (12 * torch.randn((2, n_heads, edge, edge, edge), generator=generator)).half()
    n_channels = n_heads + ignore if regions else 1
    n_values = 2 if regions else 3 + ignore
    target = torch.randint(0, n_values, (2, n_channels, edge, edge, edge), generator=generator)
    target = target.bool() if regions else target.to(torch.int16)
    loss = trainer.loss.per_case
    loss.scale_weights = (1.0,)
    loss.factors = torch.ones(1, device=findings.device)
    with torch.autocast("cuda") if findings.is_gpu else nullcontext():
        cases = loss(
            [logits.to(findings.device) if findings.is_gpu else logits.float()],
            [target.to(findings.device)],
        )
        hardness = cases.hardness
        total = cases.weighted(torch.ones(2, device=findings.device))
    exact = loss.to("cpu")([logits.double()], [target])
    hardness_error = ((hardness.cpu().double() - exact.hardness).abs() / exact.hardness.abs()).max()
    loss_error = abs(float(total) / float(exact.weighted(torch.ones(2, dtype=torch.float64))) - 1)
    return float(hardness_error), loss_error, hardness.dtype == total.dtype == torch.float32


def _overflow(findings: Any, name: str, setting: Setting) -> None:
    trainer: Any = make_trainer(name, setting, findings.device, compiled=False)
    trainer.grad_scaler = torch.amp.GradScaler("cuda", init_scale=OVERFLOW)
    steps = steps_of(trainer)
    before = weights_of(trainer)
    trainer.train_step(make_batch(trainer, setting, seed=0))
    scale = trainer.grad_scaler.get_scale()
    findings.check(
        f"amp overflow {name}",
        torch.equal(before, weights_of(trainer))
        and scale < OVERFLOW
        and np.isfinite(steps[-1].losses).all(),
        scale=scale,
    )
