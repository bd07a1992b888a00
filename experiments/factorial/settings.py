"""The corners of the factorial.

Optimiser, beta, importance weights, and the momentum of the stale losses.
"""

from dataclasses import dataclass
from itertools import product

NESTEROV = "Nesterov"
SGD = "SGD"
#: Learning rate of nnU-Net's optimiser.
NESTEROV_RATE = 1e-2
#: Learning rates of SGD without momentum with which ERM is trained, and the one of all other
#: trainings with SGD.
RATES = (0.01, 0.1, 1.0)
RATE = 0.1
BETAS = (10, 100, 1000)
MOMENTA = (0, 0.9)
#: Each factor of the trainings that are not ERM, the level that the others are compared with first.
LEVELS = {
    "weights": (False, True),
    "momentum": MOMENTA,
    "beta": BETAS,
    "optimiser": (NESTEROV, SGD),
}


@dataclass(frozen=True)
class Setting:
    """A corner of the factorial."""

    optimiser: str  # `NESTEROV` or `SGD`.
    beta: int = 0  # 0 is ERM.
    weights: bool = False  # Whether there are importance weights.
    momentum: float = 0  # Momentum of the stale losses.
    rate: float = NESTEROV_RATE  # Learning rate at the start.

    @property
    def name(self) -> str:
        """Its name in tables and of its runs."""
        words = [self.optimiser, f"beta {self.beta}" if self.beta else "ERM"]
        words += ["weights"] * self.weights + [f"momentum {self.momentum:g}"] * (self.momentum > 0)
        words += [f"rate {self.rate:g}"] * (self.optimiser == SGD and self.rate != RATE)
        return ", ".join(words)

    @property
    def sampling(self) -> str:
        """The trainer that draws and weights in this way, with nnU-Net's optimiser."""
        # A trainer's name has no options that are its defaults, as a beta of 100.
        options = f"_beta{self.beta}" * (self.beta != 100) + "_noIS" * (
            self.beta > 0 and not self.weights
        )
        return "nnUNetTrainerHWS" + options + f"_momentum{self.momentum:g}" * (self.momentum > 0)

    @property
    def trainer(self) -> str:
        """The trainer, its optimiser included."""
        if self.optimiser == NESTEROV:
            return self.sampling
        return f"{self.sampling}_plainSGD" + f"_lr{self.rate:g}" * (self.rate != NESTEROV_RATE)


def settings() -> list[Setting]:
    """All corners, and ERM by SGD with other learning rates."""
    corners = [
        Setting(
            optimiser, beta, weights, momentum, NESTEROV_RATE if optimiser == NESTEROV else RATE
        )
        for optimiser in (NESTEROV, SGD)
        for beta, weights, momentum in [(0, False, 0), *product(BETAS, (False, True), MOMENTA)]
    ]
    return corners + [Setting(SGD, rate=rate) for rate in RATES if rate != RATE]
