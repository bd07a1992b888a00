"""The segmentation studies: their data, the strata that are rare in training, and the methods that are compared."""

from dataclasses import replace

from experiments.datasets.phantoms import SIZE, Counts, write_dataset
from experiments.nnunet_runs.study import BASELINE, MINUTES_AROUND, Study
from experiments.record import render
from nnunet_dro.finetuning.schedule import LEARNING_RATE

#: Plain training, and the methods that are trained anew and from its model.
_PLAIN = "nnUNetTrainerHWS_beta0"
_ANEW = {"DRO": "nnUNetTrainerDRO", "beta10_noIS": "nnUNetTrainerHWS_beta10_noIS"}

#: Method to the method whose model it starts from, to be trained for a tenth of the iterations.
SOURCES = {f"{name}_finetuned": BASELINE for name in (BASELINE, *_ANEW)}

#: The trainers of the study of finetuning, whose names say no learning rate, because the default is nnU-Net's.
FINETUNING_TRAINERS = {
    BASELINE: _PLAIN,
    **{name: _ANEW.get(name.removesuffix("_finetuned"), _PLAIN) for name in SOURCES},
    **_ANEW,
}


def _phantoms(*, quick: bool) -> Study:
    """Phantoms whose rare pathology is a small, displaced, faint cerebellum, for `finetuning_study`."""
    if quick:
        counts, epochs, iterations = Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3), 1, 4
    else:
        counts, epochs, iterations = Counts({"control": 456, "common": 120, "rare": 24}, validation=4, test=40), 10, 100
    return Study(
        name="finetuning",
        title="Finetuning a plain training on a hidden stratum: phantoms",
        dataset="Dataset910_Phantoms",
        by="pathology",
        rare=("rare",),
        common=("common", "control"),
        labels=("cerebellum",),
        epochs=epochs,
        iterations=iterations,
        write=lambda folder, rng: write_dataset(folder, counts, rng=rng),
        settings={"train": dict(counts.train), "validation": counts.validation, "test": counts.test},
        about=render("segmentation/phantoms", train=counts.train, n_test=counts.test, size=SIZE),
        trainers=FINETUNING_TRAINERS,
        minutes_around=MINUTES_AROUND if quick else 3.0,
    )


def finetuning_study(*, quick: bool) -> Study:
    """Study of the phantoms in which a plain training is continued for a tenth of its iterations; see `SOURCES`."""
    phantoms = _phantoms(quick=quick)
    return replace(
        phantoms,
        about=render("segmentation/finetuning", phantoms=phantoms, learning_rate=LEARNING_RATE, sources=SOURCES),
        factors=dict.fromkeys(SOURCES, 0.1),
        sources=SOURCES,
    )
