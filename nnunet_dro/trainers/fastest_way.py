"""Which of two ways to the same numbers is the quicker."""

import time

import torch

from nnunet_dro.losses import LearnedWeights


class FastestWay:
    """Which of the two ways to the weights is the quicker on this machine, found in the first iterations.

    Both are exact, so the choice changes nothing but the time.
    """

    def __init__(self, learned: LearnedWeights, device: torch.device) -> None:
        self.learned = learned
        self.device = device
        self.times: list[float] = []
        self._started = 0.0

    def start(self) -> None:
        """An iteration begins; the ways take turns, the first turn of each to warm up."""
        self.learned.at_once = len(self.times) % 2 == 1 and self.learned.not_at_once is None
        self._started = self._now()

    def stop(self) -> str | None:
        """An iteration is over; one line for the log when the choice is made."""
        self.times.append(self._now() - self._started)
        if self.learned.not_at_once is not None:
            return f"Learning to reweight: weights are found case by case, not at once: {self.learned.not_at_once}"
        if len(self.times) < 4:
            return None
        case_by_case, at_once = self.times[2:]
        self.learned.at_once = at_once < case_by_case
        names = ("case by case", "at once")
        return (
            f"Learning to reweight: weights are found {names[self.learned.at_once]} ({names[0]} "
            f"{case_by_case:.3f} s, {names[1]} {at_once:.3f} s per iteration)"
        )

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
