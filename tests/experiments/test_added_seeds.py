"""Seeds that are added to a record make the record of all seeds."""

from dataclasses import fields
from itertools import product

import numpy as np

from experiments.__main__ import main
from experiments.convergence import experiment as convergence
from experiments.digits import experiment as digits
from experiments.digits.training import Epoch
from experiments.digits.training import Result as DigitsResult
from experiments.nuclei import finetuning
from experiments.nuclei.training import Result
from tests.experiments.made_nuclei import write_nuclei_dataset
from tests.experiments.made_trainings import needs_digits


def assert_added(words, folder):
    """Runs seeds 0 and 1 at once, and one after the other."""
    at_once = folder / "at-once"
    added = folder / "added"
    main([*words, "--seeds", "0", "1", "--out", str(at_once)])
    main([*words, "--seeds", "0", "--out", str(added)])
    main([*words, "--seeds", "1", "--add", "--out", str(added)])
    tables = sorted(path.name for path in at_once.glob("*.csv"))
    assert tables
    for name in tables:
        assert (added / name).read_text() == (at_once / name).read_text()
    (page,) = at_once.glob("*.md")
    paragraphs, expected = (
        [" ".join(text.split()) for text in (path / page.name).read_text().split("\n\n")]
        for path in (added, at_once)
    )
    changed = [paragraph for paragraph in paragraphs if paragraph not in expected]
    assert len(changed) == 2, changed
    assert "--seeds 0 1" in changed[0]
    assert "Seeds 0, 1 (1 when the results of the others were known). " in changed[1]
    assert main([*words, "--seeds", "1", "--add", "--out", str(folder / "nothing")]) == 2


def made_dice(run, keys):
    rng = np.random.default_rng([run.seed, run.iterations, len(run.trainer)])
    return [(*key, f"case{number}", float(rng.random())) for key in keys for number in range(3)]


def test_convergence(tmp_path, monkeypatch):
    def made(work, data, name, run, *, at, folds):
        places = list(product(at, (*data.rare, *data.common)))
        keys = [(*place, label) for place in places for label in data.labels]
        share = [(*place, 0.3) for place in places]
        return {"dice": made_dice(run, keys), "share": share, "seconds": 10.0 * (run.seed + 1)}

    monkeypatch.setattr(convergence, "make_run", made)

    words = ["convergence-slices", "--quick", "--methods", "plain", "DRO", "--jobs", "1"]

    assert_added([*words, "--work", str(tmp_path / "work")], tmp_path)


def test_finetuning_of_nuclei(tmp_path, monkeypatch):
    def made(run, train_images, test_images, *, network=None, **_):
        strata = sorted({image.modality for image in test_images})
        keys = [(run.iterations, stratum) for stratum in strata]
        share = [(run.iterations, stratum, 0.3) for stratum in strata]
        return Result(made_dice(run, keys), share, seconds=10.0 * (run.seed + 1))

    monkeypatch.setattr(finetuning, "train", made)
    write_nuclei_dataset(tmp_path / "data")

    words = ["nuclei-finetuning", "--quick", "--jobs", "1", "--data", str(tmp_path / "data")]

    assert_added([*words, "--work", str(tmp_path / "work")], tmp_path)


@needs_digits
def test_digits(tmp_path, monkeypatch):
    def made(run, split, **_):
        rng = np.random.default_rng([run.seed, round(100 * run.share)])
        n_measured = len(fields(Epoch)) - 1
        measured = [epoch for epoch in range(1, run.epochs + 1) if run.measures(epoch)]
        epochs = [
            [Epoch(epoch, *rng.uniform(1, 100, n_measured).tolist()) for epoch in measured]
            for _ in run.betas
        ]
        return DigitsResult(epochs, seconds=10.0 * (run.seed + 1))

    monkeypatch.setattr(digits, "train", made)

    assert_added(["digits", "--quick", "--jobs", "1", "--work", str(tmp_path / "work")], tmp_path)
