"""The ways of training that are compared on nuclei with wrong labels."""

from collections.abc import Sequence
from dataclasses import replace

from experiments.curves import Roles
from experiments.nuclei.methods import METHODS as NUCLEI_METHODS
from experiments.nuclei.wrong_labels_data import COMMON, RARE
from experiments.nuclei.wrong_labels_training import PLAIN_TRAINER, NoisyRun

RIGHT, PLAIN, RANDOM, L2RW, DRO, DORO = "right labels only", "plain", "random weights", "L2RW", "DRO", "DORO"
EARNED = "DRO_earned"
#: The plain network, continued on the trusted images; a method of its own that has no training of its own.
FINETUNED = "plain, finetuned"
#: The methods in the order of the page.
METHODS = (RIGHT, PLAIN, FINETUNED, RANDOM, L2RW, DRO, EARNED, DORO)
#: The learning rate at the start of the finetuning, a tenth of that of a training.
FINETUNING_RATE = 0.001
#: What the trainings are, but for their seeds and lengths.
TRAININGS = {
    RIGHT: NoisyRun(PLAIN_TRAINER, 0, 1, right_only=True),
    PLAIN: NoisyRun(PLAIN_TRAINER, 0, 1, finetuning_rate=FINETUNING_RATE),
    RANDOM: NoisyRun(PLAIN_TRAINER, 0, 1, weights="random"),
    L2RW: NoisyRun("nnUNetTrainerL2RW", 0, 1, weights="learned"),
    DRO: NoisyRun(NUCLEI_METHODS["share0.5"], 0, 1),
    EARNED: NoisyRun("nnUNetTrainerDRO", 0, 1),
    DORO: NoisyRun("nnUNetTrainerHWS_cvar0.5_doro0.3_warmup3_10epochs", 0, 1),
}
#: Differences are to plain training.
ROLES = Roles(PLAIN, "", common=(COMMON,), rare=(RARE,))


def planned_runs(
    seeds: Sequence[int], iterations: int, methods: Sequence[str] = tuple(TRAININGS)
) -> dict[str, NoisyRun]:
    """The trainings of every seed, by their names."""
    return {
        f"{method}-seed{seed}": replace(TRAININGS[method], seed=seed, iterations=iterations)
        for seed in seeds
        for method in methods
    }
