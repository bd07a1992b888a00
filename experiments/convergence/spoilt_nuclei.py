"""Microscopy images of nuclei some of whose labels are wrong."""

from functools import partial
from pathlib import Path

from experiments.convergence.questions import Question, length
from experiments.datasets.nuclei import (
    N_TEST_OF_TWO,
    N_TRAIN_OF_TWO,
    PAIR,
    read_table,
    write_nuclei,
)
from experiments.nnunet_runs.data import Data, Network
from experiments.record import render
from experiments.spoilt_labels.spoiling import Spoiling, write_spoilt

#: Of three images in ten the labels are far from right.
GROSSLY = Spoiling()
#: Of some images the labels are too small by two fifths, as those of phantoms are.
A_LITTLE = Spoiling(share=0.15, kinds=("eroded",), kept=0.6)
#: The same images, to compare with.
NONE = Spoiling(share=0.0)


def wrong_nuclei(
    data: Path,
    *,
    quick: bool,
    spoiling: Spoiling = GROSSLY,
    words: str = "wrong labels",
) -> Question:
    """Nuclei of two modalities; some images, none of the rare one, have wrong labels."""
    n_test = dict.fromkeys(N_TEST_OF_TWO, 2) if quick else N_TEST_OF_TWO
    common, rare = N_TRAIN_OF_TWO
    return Question(
        data=Data(
            dataset="Dataset929_NucleiWrong",
            by="modality",
            rare=(rare,),
            common=(common,),
            labels=("nucleus",),
            write=lambda folder, rng: write_spoilt(
                folder,
                partial(
                    write_nuclei,
                    data=data,
                    table=read_table(data),
                    n_train=N_TRAIN_OF_TWO,
                    n_test=n_test,
                ),
                by="modality",
                rare=(rare,),
                pair=PAIR,
                spoiling=spoiling,
                rng=rng,
            ),
            settings={
                "train": dict(N_TRAIN_OF_TWO),
                "test": n_test,
                "wrong": spoiling.share,
                "kinds": list(spoiling.kinds),
                "kept": spoiling.kept,
            },
            network=Network(parent="2d", batch_size=8, patch_size=(64, 64)),
        ),
        title=f"Nuclei: {words}",
        about=render("convergence/wrong_nuclei", train=N_TRAIN_OF_TWO, spoiling=spoiling),
        iterations=length(2000, quick=quick),
        gaining="purple modality",
        late=(),
        seconds=0.09,
    )
