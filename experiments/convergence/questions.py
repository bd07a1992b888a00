"""The data that the experiment is asked about, by what the names of its pages end with."""

from collections.abc import Callable
from functools import partial

from experiments.convergence.pictures import HC18, ISIC, strata_of_pictures
from experiments.convergence.studies import (
    Question,
    hippocampus,
    lesions,
    nuclei,
    partly_wrong,
    phantoms,
    tail,
)

#: What the page's name ends with to a function of the folder of the data, which phantoms do not
#: need, and `quick`.
QUESTIONS: dict[str, Callable[..., Question]] = {
    "": lambda _, quick: phantoms(quick=quick),
    "-long": lambda _, quick: phantoms(quick=quick, times=2),
    "-longest": lambda _, quick: phantoms(quick=quick, times=6),
    "-tail": lambda _, quick: tail(quick=quick),
    "-eroded": lambda _, quick: partly_wrong(quick=quick),
    "-eroded-dilated": lambda _, quick: partly_wrong(quick=quick, kinds=("eroded", "dilated")),
    "-slices": lambda _, quick: phantoms(quick=quick, slices=True),
    "-slices-wrong": lambda _, quick: phantoms(quick=quick, slices=True, wrong=True),
    "-lesions": lambda _, quick: lesions(quick=quick),
    "-lesions-slices": lambda _, quick: lesions(quick=quick, slices=True),
    "-lesions-wrong": lambda _, quick: lesions(quick=quick, wrong=True),
    "-lesions-slices-wrong": lambda _, quick: lesions(quick=quick, slices=True, wrong=True),
    "-hippocampus": hippocampus,
    "-nuclei": nuclei,
    "-hc18": partial(strata_of_pictures, HC18),
    "-isic": partial(strata_of_pictures, ISIC),
}
#: Those with real data.
REAL = {
    "-hippocampus": "The hippocampus data",
    "-nuclei": "The dataset of nuclei",
    "-hc18": "The ultrasound pictures of HC18",
    "-isic": "The pictures of ISIC 2017",
}
