"""One training on nuclei with wrong labels, and what it finds out about each training image."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor
from torch.optim import Optimizer

from experiments.curves.results import Roles
from experiments.datasets.nuclei import Image
from experiments.device import device_name
from experiments.nuclei.methods import METHODS as NUCLEI_METHODS
from experiments.nuclei.methods import PLAIN, TOLD
from experiments.nuclei.network import UNet
from experiments.nuclei.patches import BATCH, Batch, draw_patches
from experiments.nuclei.training import (
    OptimisedRun,
    Run,
    Sampler,
    groups_of,
    new_network,
    train,
)
from experiments.nuclei.wrong_labels_data import COMMON, RARE, NoisyImages
from experiments.spoilt_labels.random_weights import random_weights
from experiments.spoilt_labels.spoiling import N_TRUSTED, SHARE
from nnunet_dro.losses import DiceCELoss, LearnedWeights
from nnunet_dro.sampling import Draws, HardnessTable
from nnunet_dro.trainers.registry import parse_trainer_name

PLAIN_TRAINER = NUCLEI_METHODS[PLAIN]
#: Where the weights of a batch come from: the trainer's way of drawing, chance, or the trusted
#: images.
Weights = Literal["trainer", "random", "learned"]
#: A finetuning has one iteration in so many of the training.
FINETUNING_PART = 10
#: Streams of random numbers of a seed beside those of all trainings on nuclei.
_RANDOM_WEIGHTS = 4
_TRUSTED = 5


@dataclass(frozen=True)
class NoisyRun(Run):
    """A training with some wrong labels.

    A trainer ``..._warmup3_10epochs`` draws uniformly in the first three tenths.
    """

    weights: Weights = "trainer"  # Where the weights of a batch come from.
    right_only: bool = False  # Whether the images with wrong labels are left out.
    share: float = SHARE  # Share of the training images that have wrong labels.
    n_trusted: int = N_TRUSTED  # Trusted images of the common modality, beside one of the rare.
    #: Learning rate at the start of a finetuning on the trusted images; None for no finetuning.
    finetuning_rate: float | None = None

    @property
    def moments(self) -> list[int]:
        """Iterations after which the network is tested: a quarter, a half and all."""
        return sorted({max(1, self.iterations // part) for part in (4, 2, 1)})

    @property
    def is_swept(self) -> bool:
        """Whether other images are wrong or trusted than in most trainings."""
        return (self.share, self.n_trusted) != (SHARE, N_TRUSTED)

    @property
    def drawn_as(self) -> str:
        """Name of the trainer whose way of drawing is taken."""
        return PLAIN_TRAINER if self.weights == "learned" else self.trainer

    @property
    def n_warmup(self) -> int:
        """Iterations at the start in which images are drawn uniformly."""
        _, options = parse_trainer_name(self.drawn_as)
        return round(options.history.warmup / options.epochs * self.iterations)


class WatchedSampler(Sampler):
    """Draws and weights images as a run says.

    The stale loss and the weight of each image are added up.
    """

    def __init__(self, run: NoisyRun, images: Sequence[Image], groups: Sequence[str] = ()) -> None:
        super().__init__(run.drawn_as, images, groups)
        self.run = run
        self.rng = np.random.default_rng([run.seed, _RANDOM_WEIGHTS])
        self.n_iterations = 0
        self.loss_sums = np.zeros(len(images))
        self.weight_sums = np.zeros(len(images))
        self.n_losses = np.zeros(len(images), dtype=np.int64)
        self.times_seen = np.zeros(len(images), dtype=np.int64)

    def draw(self, rng: np.random.Generator) -> Draws:
        """Draw the images of a batch, uniformly during the warm-up."""
        self.table.warming_up = self.n_iterations < self.run.n_warmup
        self.n_iterations += 1
        return super().draw(rng)

    def step(
        self, optimiser: Optimizer, loss: DiceCELoss, network: UNet, batch: Batch, draws: Draws
    ) -> None:
        """Make a step; stale losses and weights are added up after the first third."""
        super().step(optimiser, loss, network, batch, draws)
        # Before, a network knows too little.
        if self.n_iterations > self.run.iterations // 3:
            losses = self.table.losses
            self.loss_sums += np.nan_to_num(losses)
            self.n_losses += ~np.isnan(losses)
            np.add.at(self.weight_sums, draws.indices, self.batch_weights.numpy())
            np.add.at(self.times_seen, draws.indices, 1)

    def mean_losses(self) -> list[float | None]:
        """Mean stale loss of each image; None for an image without one."""
        return _means(self.loss_sums, self.n_losses)

    def mean_weights(self) -> list[float | None]:
        """Mean weight of each image over its draws; None for an image without any."""
        return _means(self.weight_sums, self.times_seen)


class RandomSampler(WatchedSampler):
    """Weights the images of a batch at random: the control of Ren et al. 2018, section 4.1."""

    def weights(self, hardness: Tensor, draws: Draws) -> Tensor:
        """Rectified normal numbers, of mean 1 over the batch, shape (b,)."""
        return len(hardness) * random_weights(len(hardness), self.rng)


class LearningSampler(WatchedSampler):
    """Weights the images of a batch by how much they help the trusted images.

    nnUNetTrainerL2RW does so. A trusted batch is as large as a batch, so that every trusted image
    is in it; nnUNetTrainerL2RW has an eighth of a batch of more than 32, and four cases for a batch
    of eight.
    """

    def __init__(
        self,
        run: NoisyRun,
        images: Sequence[Image],
        *,
        trusted: Sequence[Image],
        network: UNet,
        loss: DiceCELoss,
    ) -> None:
        super().__init__(run, images)
        self.learned = LearnedWeights(
            network, lambda output, target: loss(output, target).losses, at_once=True
        )
        self._trusted = trusted
        self._trusted_table = HardnessTable([image.case for image in trusted])
        # As all of them were seen, with the same loss, they are drawn uniformly.
        self._trusted_table.update(range(len(trusted)), np.zeros(len(trusted)))
        self._rng = np.random.default_rng([run.seed, _TRUSTED])

    def backward(
        self, loss: DiceCELoss, network: UNet, images: Tensor, labels: Tensor, draws: Draws
    ) -> None:
        """Give the parameters the weighted gradient.

        They get none if no image of the batch helps the trusted ones.
        """
        trusted_draws = self._trusted_table.draw(BATCH, rng=self._rng)
        trusted = draw_patches(self._trusted, trusted_draws, self._rng)
        gradient = self.learned.gradient((images, labels), trusted)
        if float(gradient.total) > 0:
            gradient.write()
        self.batch_weights = (gradient.weights * len(gradient.weights)).cpu()
        self.table.update(draws.indices, gradient.losses.cpu().numpy())


def train_noisy(run: NoisyRun, images: NoisyImages) -> dict[str, Any]:
    """Train one network on images with wrong labels, and finetune it if the run says so.

    The loss has a Dice of each patch alone in all trainings, since learnt weights need one.

    Returns:
        A `Result` with rows ``cases``: a training image, its modality, kind, whether it is trusted,
        its mean stale loss and weight (None if not drawn) and number of draws, where iterations
        count; and rows ``finetuned``, as ``dice``, at the run's end.
    """
    if run.right_only:
        images = images.with_right_labels_only()
    network = new_network(run.seed).to(device_name())
    loss = DiceCELoss(batch_dice=False, do_bg=False, hardness="pooled").to(device_name())
    start = time.process_time()
    sampler = _sampler(run, images, network, loss)
    result = train(run, images.train, images.test, network=network, sampler=sampler, loss=loss)
    cases = zip(
        (image.case for image in images.train),
        (image.modality for image in images.train),
        images.kinds,
        images.trusted,
        sampler.mean_losses(),
        sampler.mean_weights(),
        sampler.times_seen.tolist(),
        strict=True,
    )

    finetuned: list[tuple[int, str, str, float]] = []
    if run.finetuning_rate is not None:
        # On the trusted images alone.
        length = max(1, run.iterations // FINETUNING_PART)
        part = OptimisedRun(PLAIN_TRAINER, run.seed, length, run.finetuning_rate)
        continued = train(part, images.trusted_images, images.test, network=network, loss=loss)
        for iteration, modality, case, dice in continued.dice:
            if iteration == length:
                finetuned.append((run.iterations, modality, case, dice))
    return {
        **asdict(result),
        "cases": list(cases),
        "finetuned": finetuned,
        "seconds": time.process_time() - start,
    }


def _sampler(run: NoisyRun, images: NoisyImages, network: UNet, loss: DiceCELoss) -> WatchedSampler:
    if run.weights == "learned":
        trusted = images.trusted_images
        return LearningSampler(run, images.train, trusted=trusted, network=network, loss=loss)
    groups = groups_of(run, images.train, loss)
    if run.weights == "random":
        return RandomSampler(run, images.train, groups)
    return WatchedSampler(run, images.train, groups)


def _means(sums: np.ndarray, counts: np.ndarray) -> list[float | None]:
    return [float(total / n) if n else None for total, n in zip(sums, counts, strict=True)]


RIGHT = "right labels only"
RANDOM = "random weights"
L2RW = "L2RW"
DRO = "DRO"
DORO = "DORO"
EARNED = "DRO_earned"
#: The plain network, continued on the trusted images; a method of its own that has no training of
#: its own.
FINETUNED = "plain, finetuned"
#: Those that are told the modalities, or wrong ones, and that which draws by the held-out Dice.
TOLD_MORE = (TOLD, "told_share0.5", "shuffled", "held_out")
#: Those of the sweep: with fewer trusted images, or with more wrong ones and their own plain
#: training.
FEWER_TRUSTED = "L2RW, 2 trusted"
MORE_WRONG = "L2RW, 60 wrong"
PLAIN_MORE_WRONG = "plain, 60 wrong"
FINETUNED_MORE_WRONG = f"{PLAIN_MORE_WRONG}, finetuned"
SWEPT = (FEWER_TRUSTED, PLAIN_MORE_WRONG, FINETUNED_MORE_WRONG, MORE_WRONG)
#: The methods in the order of the page.
METHODS = (RIGHT, PLAIN, FINETUNED, RANDOM, L2RW, DRO, EARNED, DORO, *TOLD_MORE, *SWEPT)
#: The learning rate at the start of the finetuning, a tenth of that of a training.
FINETUNING_RATE = 0.001
#: What the trainings are, but for their seeds and lengths.
TRAININGS = {
    RIGHT: NoisyRun(PLAIN_TRAINER, 0, 1, right_only=True),
    PLAIN: NoisyRun(PLAIN_TRAINER, 0, 1, finetuning_rate=FINETUNING_RATE),
    RANDOM: NoisyRun(PLAIN_TRAINER, 0, 1, weights="random"),
    L2RW: NoisyRun("nnUNetTrainerL2RW", 0, 1, weights="learned"),
    DRO: NoisyRun(NUCLEI_METHODS["share0.5"], 0, 1),
    EARNED: NoisyRun("nnUNetTrainerDRO_earned0.5", 0, 1),
    DORO: NoisyRun("nnUNetTrainerHWS_cvar0.5_doro0.3_warmup3_10epochs", 0, 1),
    **{method: NoisyRun(NUCLEI_METHODS[method], 0, 1) for method in TOLD_MORE},
    FEWER_TRUSTED: NoisyRun("nnUNetTrainerL2RW", 0, 1, weights="learned", n_trusted=1),
    PLAIN_MORE_WRONG: NoisyRun(PLAIN_TRAINER, 0, 1, finetuning_rate=FINETUNING_RATE, share=0.6),
    MORE_WRONG: NoisyRun("nnUNetTrainerL2RW", 0, 1, weights="learned", share=0.6),
}
#: Differences are to plain training.
ROLES = Roles(PLAIN, TOLD, common=(COMMON,), rare=(RARE,))
