"""The data and the methods of the experiment with wrong labels."""

from experiments.curves.results import Roles
from experiments.datasets.phantoms import Counts
from experiments.label_noise.random_weights import RANDOM_WEIGHTS, TRAINER_FOLDER
from experiments.nnunet_runs.data import Data
from experiments.nnunet_runs.results import ALL_LABELS, BASELINE, Trainings
from experiments.spoilt_labels import spoiling

#: Plain training on the cases with right labels alone, which is what wrong labels are measured
#: against.
RIGHT = "right"
#: Balanced sampling, which is told who is rare and not whose labels are wrong.
TOLD = "IW"
#: Plain training on all cases, continued on the trusted ones.
FINETUNED = "ERM_finetuned"
#: First learning rate of that continuation, a tenth of nnU-Net's: five cases are soon learnt by
#: heart.
FINETUNING_RATE = 0.001
#: Share of the epochs in which DORO draws uniformly, so that a network that knows something decides
#: what is set aside.
_WARMUP = 0.3
#: Epochs and training iterations per epoch.
_LENGTH = (40, 100)
_QUICK_LENGTH = (3, 4)
_PLAIN = "nnUNetTrainerHWS_beta0"


def trainers(epochs: int) -> dict[str, str]:
    """Method to the trainer's name without its length, for trainings of that many epochs.

    DORO knows the share that is spoilt, and takes the worse half of the rest: spoilt cases that it
    missed would make up more of a smaller part.
    """
    doro = f"cvar0.5_doro{spoiling.SHARE}_warmup{round(_WARMUP * epochs)}"
    return {
        BASELINE: _PLAIN,
        RIGHT: _PLAIN,
        FINETUNED: f"{_PLAIN}_lr{FINETUNING_RATE}",
        "random": RANDOM_WEIGHTS,
        "DRO": "nnUNetTrainerDRO_share0.5",
        "DRO_earned": "nnUNetTrainerDRO_earned0.5",
        "hardest_kinds": "nnUNetTrainerDRO",
        "DORO_warm": f"nnUNetTrainerHWS_{doro}",
        "L2RW": "nnUNetTrainerL2RW",
        TOLD: "nnUNetTrainerIW_pathology",
    }


#: All methods, the baseline first.
METHODS = tuple(trainers(_LENGTH[0]))


def phantoms(*, quick: bool) -> Trainings:
    """Trainings on phantoms of three pathologies, of which the rare one is never spoilt."""
    counts = Counts({"control": 65, "common": 20, "rare": 15}, validation=4, test=20)
    epochs, iterations = _LENGTH
    if quick:
        counts = Counts({"control": 10, "common": 6, "rare": 4}, validation=1, test=2)
        epochs, iterations = _QUICK_LENGTH

    data = Data(
        dataset="Dataset913_NoisyPhantoms",
        by="pathology",
        rare=("rare",),
        common=("control", "common"),
        labels=("grey_matter", "white_matter", "cerebellum"),
        write=lambda folder, rng: spoiling.write_spoilt_phantoms(folder, counts, rng=rng),
        settings={
            "train": dict(counts.train),
            "validation": counts.validation,
            "test": counts.test,
            "share": spoiling.SHARE,
            "trusted": [spoiling.N_TRUSTED, spoiling.N_TRUSTED_RARE],
            "subsets": [RIGHT, FINETUNED],
        },
        folds=(spoiling.right_cases, spoiling.trusted_cases),
    )
    return Trainings(
        name="phantoms",
        data=data,
        trainers=trainers(epochs),
        sources={FINETUNED: BASELINE},
        folds={RIGHT: 1, FINETUNED: 2},
        epochs=epochs,
        iterations=iterations,
        trainer_folders=(TRAINER_FOLDER,),
    )


def roles(data: Data) -> Roles:
    """What the methods and the strata are in the comparison.

    The method that is told most is the one that knows which labels are right.
    """
    return Roles(BASELINE, RIGHT, common=data.common, rare=data.rare, label=ALL_LABELS)
