"""The corners of the factorial: optimiser, beta, importance weights, momentum of stale losses."""

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
        words = [self.optimiser]
        words.append(f"beta {self.beta}" if self.beta else "ERM")
        if self.weights:
            words.append("weights")
        if self.momentum > 0:
            words.append(f"momentum {self.momentum:g}")
        if self.optimiser == SGD and self.rate != RATE:
            words.append(f"rate {self.rate:g}")
        return ", ".join(words)

    @property
    def sampling(self) -> str:
        """The trainer that draws and weights in this way, with nnU-Net's optimiser."""
        name = "nnUNetTrainerHWS"
        # A trainer's name has no options that are its defaults, as a beta of 100.
        if self.beta != 100:
            name += f"_beta{self.beta}"
        if self.beta > 0 and not self.weights:
            name += "_noIS"
        if self.momentum > 0:
            name += f"_momentum{self.momentum:g}"
        return name

    @property
    def trainer(self) -> str:
        """The trainer, its optimiser included."""
        if self.optimiser == NESTEROV:
            return self.sampling
        name = f"{self.sampling}_plainSGD"
        if self.rate != NESTEROV_RATE:
            name += f"_lr{self.rate:g}"
        return name


def settings() -> list[Setting]:
    """All corners, and ERM by SGD with other learning rates."""
    samplings = [(0, False, 0), *product(BETAS, (False, True), MOMENTA)]
    corners = []
    for optimiser, rate in ((NESTEROV, NESTEROV_RATE), (SGD, RATE)):
        for beta, weights, momentum in samplings:
            corners.append(Setting(optimiser, beta, weights, momentum, rate))
    return corners + [Setting(SGD, rate=rate) for rate in RATES if rate != RATE]
