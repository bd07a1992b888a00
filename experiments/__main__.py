"""Run an experiment and write its record.

    python -m experiments NAME ...

Every experiment has a page in docs/results, which shows its command. ``python -m experiments NAME
--help`` says what it needs, and how it goes on where it was interrupted.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

from experiments.record.experiment import Experiment, run

#: What can be trained on until plain training has converged.
CONVERGENCE = [
    "",
    "-long",
    "-longest",
    "-tail",
    "-eroded",
    "-eroded-few",
    "-eroded-many",
    "-dilated",
    "-dilated-few",
    "-dilated-many",
    "-eroded-dilated",
    "-eroded-dilated-few",
    "-eroded-dilated-many",
    "-hopeless",
    "-slices",
    "-slices-wrong",
    "-hippocampus",
    "-nuclei",
    "-nuclei-wrong",
    "-nuclei-eroded",
    "-nuclei-eroded-few",
    "-nuclei-eroded-many",
    "-nuclei-dilated",
    "-nuclei-dilated-few",
    "-nuclei-dilated-many",
    "-nuclei-eroded-dilated",
    "-nuclei-eroded-dilated-few",
    "-nuclei-eroded-dilated-many",
    "-nuclei-right",
    "-hc18",
    "-isic",
    "-isic-cameras",
]
CONVERGENCE += ["-lesions", "-lesions-wrong", "-lesions-slices", "-lesions-slices-wrong"]
# The same with seeds that were not known when the default was chosen.
CONVERGENCE += ["-fresh", "-slices-fresh", "-nuclei-fresh", "-isic-fresh"]
#: Name of an experiment, which is that of its record, to the module that has it.
MODULES = {
    **{f"convergence{kind}": "convergence.experiment" for kind in CONVERGENCE},
    "demo": "demo.experiment",
    "digits": "digits.experiment",
    "hardness-signals": "hardness_signals.experiment",
    "hardness-signals-slices": "hardness_signals.experiment",
    "imbalanced-pair": "imbalanced_pair.experiment",
    "imbalanced-pair-published": "imbalanced_pair.experiment",
    "label-noise": "label_noise.experiment",
    "nuclei": "nuclei.experiment",
    "nuclei-factorial": "nuclei.factorial",
    "nuclei-finetuning": "nuclei.finetuning",
    "nuclei-unseen": "nuclei.unseen",
    "nuclei-wrong-labels": "nuclei.wrong_labels",
    "phantoms-factorial": "convergence.factorial",
    "reweighting-limits": "reweighting_limits.experiment",
    "segmentation-finetuning": "segmentation.experiment",
    "theorems": "reweighting_limits.theorems",
}


def experiment(name: str) -> Experiment:
    """The experiment of that name: the one of its module, or one of several."""
    module = import_module(f"experiments.{MODULES[name]}")
    return module.EXPERIMENTS[name] if hasattr(module, "EXPERIMENTS") else module.EXPERIMENT


def main(words: Sequence[str]) -> int:
    """Run the experiment that the first word names; returns the exit code."""
    if not words or words[0] not in MODULES:
        sys.stderr.write(f"{__doc__}\nNAME is one of {', '.join(MODULES)}.\n")
        return 0 if words and words[0] in ("-h", "--help") else 2
    return run(experiment(words[0]), words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
