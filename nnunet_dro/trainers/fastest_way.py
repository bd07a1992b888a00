"""Finds out which of two ways to the same weights is faster on this machine."""

import time

import torch

from nnunet_dro.losses import LearnedWeights


class FastestWay:
    """Finds the faster of the two ways to learnt weights in the first iterations of a training.

    Both ways are exact, so the choice only changes the time.
    """

    def __init__(self, learned: LearnedWeights, device: torch.device) -> None:
        self.learned = learned
        self.device = device
        self.times: list[float] = []
        self._started = 0.0

    def start(self) -> None:
        """Start an iteration. The ways take turns; the first turn of each is not timed."""
        self.learned.at_once = len(self.times) % 2 == 1 and self.learned.not_at_once is None
        self._started = self._now()

    def stop(self) -> str | None:
        """End an iteration; returns one line for the log once the choice is made."""
        self.times.append(self._now() - self._started)
        if (reason := self.learned.not_at_once) is not None:
            return f"Learning to reweight: the weights are computed case by case and not at once: {reason}"
        if len(self.times) < 4:
            return None
        case_by_case, at_once = self.times[2:]
        self.learned.at_once = at_once < case_by_case
        names = ("case by case", "at once")
        return (
            f"Learning to reweight: the weights are computed {names[self.learned.at_once]} ({names[0]} "
            f"{case_by_case:.3f} s, {names[1]} {at_once:.3f} s per iteration)"
        )

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
