import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from experiments.label_noise.__main__ import QUICK_METHODS, main, run
from experiments.label_noise.data import (
    KINDS,
    NOISE_FILE,
    draw_noise,
    eroded,
    mean_dice,
    shifted,
    spoil,
    spoil_dataset,
    swapped,
)
from experiments.label_noise.page import separation_rows
from experiments.label_noise.results import dice_by_label, separation_table, training_cases
from experiments.label_noise.studies import TRAINERS, hippocampus_study, phantom_study
from experiments.nnunet_runs import runs as segmentation_runs
from experiments.nnunet_runs.page import not_learnt
from experiments.nnunet_runs.results import ALL_LABELS, Results
from experiments.nnunet_runs.runs import SeedRuns
from nnunet_dro.trainers.registry import trainer_class
from tests.experiments.made_studies import LABELS, NNUNet, row_of, tiny_study, write_label_map


@pytest.fixture
def ball():
    """Two labels, one in the other, far from the border of the image."""
    position = np.stack(np.meshgrid(*[np.arange(20)] * 3, indexing="ij"))
    distance = np.sqrt(((position - 9.5) ** 2).sum(axis=0))
    labels = np.zeros((20, 20, 20), np.uint8)
    labels[distance < 6], labels[distance < 4] = 1, 2
    return labels


def volumes(labels):
    return {label: int((labels == label).sum()) for label in (1, 2)}


def test_swapping_twice_changes_nothing(ball):
    once = swapped(ball, pair=(1, 2))
    assert volumes(once) == {1: volumes(ball)[2], 2: volumes(ball)[1]}
    assert (once > 0).sum() == (ball > 0).sum()
    assert mean_dice(ball, once) == 0
    np.testing.assert_array_equal(swapped(once, pair=(1, 2)), ball)


def test_swapping_leaves_other_labels_alone():
    assert swapped(np.array([0, 1, 2, 3], np.uint8), pair=(1, 2)).tolist() == [0, 2, 1, 3]


def test_shift_keeps_the_volumes_and_is_as_small_as_does(ball):
    moved = shifted(ball, rng=np.random.default_rng(0))
    assert volumes(moved) == volumes(ball)
    assert mean_dice(ball, moved) < 0.5
    offset = np.argwhere(moved > 0).mean(axis=0) - np.argwhere(ball > 0).mean(axis=0)
    distance = round(abs(offset[0]))
    np.testing.assert_allclose(abs(offset), distance)
    less = np.roll(ball, tuple(((distance - 1) * np.sign(offset)).astype(int)), axis=(0, 1, 2))
    assert mean_dice(ball, less) >= 0.5


def test_shift_goes_along_every_diagonal(ball):
    rng = np.random.default_rng(0)
    found = {tuple(np.sign(np.argwhere(shifted(ball, rng=rng) > 0).mean(axis=0) - 9.5)) for _ in range(60)}
    assert len(found) == 8


def test_label_that_fills_the_image_cannot_be_shifted():
    with pytest.raises(ValueError, match=r"`labels` must be small enough in the image .* got 64 of 64 voxels"):
        shifted(np.ones((4, 4, 4), np.uint8), rng=np.random.default_rng(0))


def test_eroded_is_the_inner_third_of_each_label(ball):
    left = eroded(ball)
    assert ((left == ball) | (left == 0)).all()
    for label, volume in volumes(ball).items():
        assert (left == label).sum() == round(volume / 3)
    assert mean_dice(ball, left) == pytest.approx(0.5, abs=0.01)
    # What is left of the inner ball is a ball: nothing outside is nearer to its centre.
    distance = np.sqrt(((np.stack(np.meshgrid(*[np.arange(20)] * 3, indexing="ij")) - 9.5) ** 2).sum(axis=0))
    inner = ball == 2
    assert distance[left == 2].mean() < distance[inner & (left == 0)].mean()
    assert distance[left == 2].max() < distance[inner].max()


def test_erosion_of_a_line_by_hand():
    line = np.array([0, 1, 1, 1, 1, 1, 1, 0, 2], np.uint8)
    # Depths 1 2 3 3 2 1; the image's end is an edge, too, and the last voxel of a label stays.
    assert eroded(line).tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 2]


def test_mean_dice_by_hand():
    # Label 1: 2 * 1 / (2 + 1); label 2: 2 * 2 / (2 + 3); background does not count.
    reference, prediction = np.array([0, 0, 1, 1, 2, 2], np.uint8), np.array([0, 0, 1, 2, 2, 2], np.uint8)
    assert mean_dice(reference, prediction) == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_kinds_are_those_there_are(ball):
    for kind in KINDS:
        assert mean_dice(ball, spoil(ball, kind, pair=(1, 2), rng=np.random.default_rng(0))) < 0.51
    with pytest.raises(ValueError, match="`kind` must be one of swapped, shifted, eroded, got 'blurred'"):
        spoil(ball, "blurred", pair=(1, 2), rng=np.random.default_rng(0))


@pytest.mark.parametrize(("n_cases", "n_spoilt"), [(100, 30), (20, 6), (31, 9)])
def test_three_of_ten_are_spoilt_and_trusted_ones_are_right(n_cases, n_spoilt):
    cases = [f"case{i:03d}" for i in range(n_cases)]
    noise = draw_noise(cases, rng=np.random.default_rng(0))
    assert noise["case"].tolist() == cases
    assert (noise["kind"] != "clean").sum() == n_spoilt
    assert set(noise["kind"].value_counts()[list(KINDS)]) == {n_spoilt // 3}
    assert (noise["trusted"] == "yes").sum() == 5
    assert set(noise["kind"][noise["trusted"] == "yes"]) == {"clean"}


def test_draw_depends_on_the_seed_and_not_on_the_order():
    cases = [f"case{i}" for i in range(40)]
    first, again, other = (
        draw_noise(cases[::step], rng=np.random.default_rng(s)) for step, s in ((1, 0), (-1, 0), (1, 1))
    )
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


def test_too_few_cases_are_refused():
    with pytest.raises(ValueError, match=r"`cases` must be enough for 5 trusted and 3 or more spoilt ones, got 8"):
        draw_noise([f"case{i}" for i in range(8)], rng=np.random.default_rng(0))


def write_balls(folder, ball, n_train=20):
    rows = [(f"ball{i:02d}", "train" if i < n_train else "validation") for i in range(n_train + 2)]
    for case, _ in rows:
        write_label_map(folder / "labelsTr" / f"{case}.nii.gz", ball)
    pd.DataFrame(rows, columns=["case", "split"]).to_csv(folder / "cases.csv", index=False)


def test_dataset_is_spoilt_as_its_own_file_says_and_the_trainers_do_not_see_it(ball, tmp_path):
    import SimpleITK

    write_balls(tmp_path, ball)
    spoil_dataset(tmp_path, file_ending=".nii.gz", pair=(1, 2), n_trusted=5, rng=np.random.default_rng(0))

    noise = pd.read_csv(tmp_path / NOISE_FILE).set_index("case")
    table = pd.read_csv(tmp_path / "cases.csv").set_index("case")
    assert list(table.columns) == ["split", "trusted"]
    assert (table["trusted"] == "yes").sum() == 5
    assert set(noise["kind"][table.index[table["trusted"] == "yes"]]) == {"clean"}
    changed = []
    for case in table.index:
        now = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(tmp_path / "labelsTr" / f"{case}.nii.gz")))
        if (now != ball).any():
            changed.append(case)
            assert noise.loc[case, "dice"] == pytest.approx(mean_dice(ball, now))
        else:
            assert case not in noise.index or noise.loc[case, "dice"] == 1
    assert changed == noise.index[noise["kind"] != "clean"].tolist()
    assert len(changed) == 6
    assert set(table["trusted"][table["split"] == "validation"]) == {"no"}


@pytest.mark.parametrize("method", TRAINERS)
def test_every_method_is_a_trainer_that_nnunet_finds(method):
    study = phantom_study(quick=False)
    assert trainer_class(study.trainer(method)).__name__ == study.trainer(method)


def test_phantoms_have_no_rare_pathology_and_the_share_they_say(tmp_path):
    study = phantom_study(quick=True)
    folder = tmp_path / study.dataset
    study.write(folder, np.random.default_rng(0))

    train, test = (pd.read_csv(folder / name) for name in ("cases.csv", "test_cases.csv"))
    assert set(train["pathology"]) | set(test["pathology"]) == {"control", "common"}
    for name, table, ending in (("imagesTs", test, "_0000.nii.gz"), ("labelsTs", test, ".nii.gz")):
        assert {path.name for path in (folder / name).iterdir()} == {f"{case}{ending}" for case in table["case"]}
    noise = pd.read_csv(folder / NOISE_FILE)
    assert sorted(noise["case"]) == sorted(train["case"][train["split"] == "train"])
    assert (noise["kind"] != "clean").mean() == 0.3


def test_hippocampus_takes_one_range_and_refuses_too_few_cases(tmp_path):
    data = tmp_path / "Dataset004_Hippocampus"
    rows = [(f"raw{i:02d}", "raw") for i in range(24)] + [("eight0", "8bit")]
    for case, _ in rows:
        write_label_map(data / "labelsTr" / f"{case}.nii.gz", row_of(10))
        write_label_map(data / "imagesTr" / f"{case}_0000.nii.gz", row_of(3))
    table = pd.DataFrame(rows, columns=["case", "intensity_range"])
    table.to_csv(data / "cases.csv", index=False)
    content = {"labels": LABELS, "file_ending": ".nii.gz", "channel_names": {"0": "MRI"}, "numTraining": len(rows)}
    (data / "dataset.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="`data` must have 25 cases of range 'raw', got 24"):
        hippocampus_study(data, quick=True)


def made_cases(method, signal, values, losses, kinds, trusted=(), seed=0, rare=()):
    n = len(values)
    place = pd.Series(values).rank(method="first", ascending=signal == "weight").astype(int)
    return pd.DataFrame(
        {
            "method": method,
            "seed": seed,
            "case": [f"case{i}" for i in range(n)],
            "kind": kinds,
            "trusted": [i in trusted for i in range(n)],
            "rare": [i in rare for i in range(n)],
            "place": place,
            "signal": signal,
            "value": values,
            "loss": losses,
            "times_seen": range(n),
            "share": np.full(n, 1 / n),
        }
    )


def test_auc_is_that_of_wrong_cases_with_low_weights_or_high_losses():
    kinds = ["clean", "clean", "clean", "swapped", "shifted", "eroded"]
    weights, losses = [0.2, 1.0, 1.2, 0.1, 0.5, 1.1], [0.1, 0.2, 0.3, 0.9, 0.8, 0.05]
    made = made_cases("L2RW", "weight", weights, losses, kinds, trusted=(0,))
    by_weight, by_loss = separation_table(made).to_dict("records")
    # Right and not trusted: 1.0 and 1.2. Swapped and shifted lie below both, eroded below one.
    assert by_weight["auc"] == pytest.approx(5 / 6)
    assert [by_weight[f"auc_{kind}"] for kind in KINDS] == [1, 1, 0.5]
    assert by_loss["auc"] == pytest.approx(4 / 6)
    assert by_loss["auc_eroded"] == 0
    assert by_weight["share"] == pytest.approx(0.5)
    assert by_weight["right_unseen"] == 1, "the first one was seen 0 times"
    assert by_weight["found"] == 3, "all cases are among the first twenty"


def test_first_twenty_are_those_of_the_ranking_trusted_ones_too():
    kinds = ["swapped"] * 6 + ["clean"] * 30
    made = made_cases("ERM", "loss", [1.0] * 4 + [0.0] * 2 + [0.5] * 30, [0.0] * 36, kinds, trusted=(6,))
    (row,) = separation_table(made).to_dict("records")
    assert row["found"] == 4
    assert row["auc"] == pytest.approx(4 / 6)


def test_right_cases_that_are_rare_are_counted_for_themselves():
    kinds = ["swapped", "clean", "clean", "clean", "clean"] + ["clean"] * 20
    losses = [0.9, 0.8, 0.1, 0.2, 0.7] + [0.3] * 20
    # Trusted: 4. Rare: a wrong one (0), a hard one (1), an easy one (2) and the trusted one.
    made = made_cases("ERM", "loss", losses, losses, kinds, trusted=(4,), rare=(0, 1, 2, 4))
    (row,) = separation_table(made).to_dict("records")
    assert row["auc_rare"] == pytest.approx((21 + 0) / (2 * 21))
    assert (row["found"], row["found_rare"]) == (1, 2), "the trusted one is right and rare, too"
    (shown,) = separation_rows(separation_table(made)).to_dict("records")
    assert shown["right but rare of the first 20, by seed"] == "2"
    assert "auc_rare" not in separation_table(made_cases("ERM", "loss", losses, losses, kinds))


def test_rare_phantoms_are_in_the_training_alone(tmp_path):
    study = phantom_study(quick=True, rare=True)
    study.write(tmp_path / study.dataset, np.random.default_rng(0))
    train, test = (pd.read_csv(tmp_path / study.dataset / name) for name in ("cases.csv", "test_cases.csv"))
    counts = train[train["split"] == "train"]["pathology"].value_counts().to_dict()
    assert counts == {"control": 10, "common": 6, "rare": 4}
    assert "rare" not in set(test["pathology"])
    assert study.dataset != phantom_study(quick=True).dataset


def test_page_shows_means_of_the_seeds():
    kinds = ["clean", "swapped"]
    parts = [
        made_cases("ERM", "loss", values, values, kinds, seed=seed) for seed, values in enumerate(([0, 1], [1, 0]))
    ]
    (row,) = separation_rows(separation_table(pd.concat(parts))).to_dict("records")
    assert (row["AUC"], row["AUC, seeds"]) == (0.5, "0.00 to 1.00")
    assert row["wrong of the first 20, by seed"] == "1, 1"
    assert row["share of wrong cases in the training"] == "50 %"


def test_training_that_has_not_learnt_a_label_is_named():
    rows = [("ERM", 0, "stem", 0.0), ("ERM", 0, "stem", 0.5), ("ERM", 0, "bud", 0.0), ("DRO", 1, "stem", 0.004)]
    dice = pd.DataFrame(rows, columns=["method", "seed", "label", "dice"]).assign(stratum="test")
    assert not_learnt(dice) == [
        "ERM, seed 0 (bud)",
        "DRO, seed 1 (stem)",
    ]


def test_dice_differences_by_hand():
    rows = []
    for method, shift in (("ERM", 0.0), ("L2RW", 0.1)):
        for seed in (0, 1):
            for case in range(4):
                if method == "L2RW" and seed == 1:
                    continue
                value = 0.5 + 0.1 * case + shift * (case != 0)
                rows += [(method, seed, f"c{case}", label, value) for label in ("stem", ALL_LABELS)]
    dice = pd.DataFrame(rows, columns=["method", "seed", "case", "label", "dice"])
    results = Results(tiny_study(trainers=TRAINERS), ("ERM", "L2RW"), dice, pd.DataFrame())
    table = dice_by_label(results).set_index(["label", "method"])
    erm, l2rw = table.loc[(ALL_LABELS, "ERM")], table.loc[(ALL_LABELS, "L2RW")]
    assert (erm["n_cases"], l2rw["n_cases"], l2rw["n_seeds"], l2rw["seeds_better"]) == (8, 4, 1, 1)
    assert erm["mean"] == pytest.approx(0.65)
    assert np.isnan(erm["mean_difference"])
    assert l2rw["mean_difference"] == pytest.approx(0.3 / 4)
    assert l2rw["p25"] == pytest.approx(0.65)  # of 0.5, 0.7, 0.8, 0.9
    assert l2rw["p25_difference"] == pytest.approx(0.65 - 0.575)
    assert 0 <= l2rw["mean_difference_low"] <= l2rw["mean_difference"] <= l2rw["mean_difference_high"] <= 0.1 + 1e-9


def write_log(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)


WEIGHTS, HARDNESS = ["epoch", "case", "weight", "times_seen"], ["epoch", "case", "loss", "probability", "draws"]


@pytest.fixture
def finished(tmp_path):
    """Three epochs, of which the first does not count, of a weighted and of a plain training."""
    of_seed = SeedRuns(tmp_path / "seed0", tiny_study(trainers=TRAINERS), 0)
    of_seed.raw.mkdir(parents=True)
    write_log(of_seed.raw / NOISE_FILE, ["case", "kind"], [("a", "clean"), ("b", "swapped"), ("c", "clean")])
    write_log(of_seed.raw / "cases.csv", ["case", "trusted"], [("a", "yes"), ("b", "no"), ("c", "no")])
    weights = [(0, "a", 0, 9), (0, "b", 9, 9), (0, "c", 0, 9)]
    weights += [
        (1, "a", 1.5, 2),
        (1, "b", 0.5, 1),
        (1, "c", None, 0),
        (2, "a", 1.0, 2),
        (2, "b", 0.0, 3),
        (2, "c", 1, 2),
    ]
    losses = [(e, case, loss, 0.3, 1) for e in range(3) for case, loss in (("a", 0.1), ("b", 0.9 + e), ("c", 0.2))]
    write_log(of_seed.fold("L2RW") / "weights.csv", WEIGHTS, weights)
    for method in ("L2RW", "ERM"):
        write_log(of_seed.fold(method) / "hardness.csv", HARDNESS, losses)
    return of_seed


def test_training_cases_have_means_of_the_epochs_that_count(finished):
    cases = training_cases(finished, "L2RW").set_index("case")
    assert cases["signal"].unique().tolist() == ["weight"]
    assert cases["value"].to_dict() == pytest.approx({"a": 1.25, "b": 0.5 / 4, "c": 1.0})
    assert cases["place"].to_dict() == {"b": 1, "c": 2, "a": 3}
    assert cases["times_seen"].to_dict() == {"a": 4, "b": 4, "c": 2}
    assert cases["trusted"].to_dict() == {"a": True, "b": False, "c": False}
    assert cases.loc["b", "kind"] == "swapped"
    # Weight given: a 5, b 0.5, c 2.
    assert cases["share"].to_dict() == pytest.approx({"a": 5 / 7.5, "b": 0.5 / 7.5, "c": 2 / 7.5})
    assert cases.loc["b", "loss"] == pytest.approx((1.9 + 2.9) / 2)


def test_training_cases_without_weights_have_losses(finished):
    cases = training_cases(finished, "ERM").set_index("case")
    assert cases["signal"].unique().tolist() == ["loss"]
    assert cases["value"].to_dict() == pytest.approx({"a": 0.1, "b": 2.4, "c": 0.2})
    assert cases["place"].to_dict() == {"b": 1, "c": 2, "a": 3}
    assert cases["share"].to_dict() == pytest.approx(dict.fromkeys("abc", 1 / 3))


class WithLogs(NNUNet):
    """The stand-in for nnU-Net, which writes what our trainers write about their cases, too."""

    def train(self, trainer, arguments, environment):
        super().train(trainer, arguments, environment)
        (fold,) = self.results(environment).glob(f"{trainer}__*/fold_0")
        cases = ["rare0Tr", "usual1Tr", "usual2Tr", "usual3Tr"]
        rows = [(epoch, case, float(case == "rare0Tr"), 0.25, 1) for epoch in range(2) for case in cases]
        write_log(fold / "hardness.csv", HARDNESS, rows)

    @staticmethod
    def results(environment):
        from pathlib import Path

        return Path(environment["nnUNet_results"]) / "Dataset912_Tiny"


def write_tiny_with_noise(folder, rng):
    from tests.experiments.made_studies import write_tiny

    write_tiny(folder, rng)
    table = pd.read_csv(folder / "cases.csv")
    table.assign(trusted=["yes" if case == "usual1Tr" else "no" for case in table["case"]]).to_csv(
        folder / "cases.csv", index=False
    )
    noise = table[table["split"] == "train"][["case"]].assign(dice=1.0)
    noise.assign(kind=["swapped" if case == "rare0Tr" else "clean" for case in noise["case"]]).to_csv(
        folder / NOISE_FILE, index=False
    )


def test_run_writes_a_page_with_the_numbers_of_its_files_and_goes_on(tmp_path, monkeypatch):
    nnunet = WithLogs()
    nnunet.n_stem = {("nnUNetTrainerDRO_beta10_noIS", "rare0Ts", 0): 5}
    monkeypatch.setattr(segmentation_runs, "run_command", nnunet)
    study = tiny_study(
        name="phantoms",
        by="split",
        rare=(),
        common=("test",),
        labels=("stem", "bud"),
        write=write_tiny_with_noise,
        trainers=TRAINERS,
    )
    options = {"work": tmp_path / "work", "out": tmp_path / "out", "console": Console(quiet=True)}
    page = run(study, seeds=(0,), methods=("DRO",), **options)

    table = pd.read_csv(tmp_path / "out" / "label-noise-all.csv").set_index(["label", "method"])
    # One of five cases has Dice 2/3 for one of two labels.
    assert table.loc[("stem", "DRO"), "mean_difference"] == pytest.approx(-(1 / 3) / 5)
    assert table.loc[(ALL_LABELS, "DRO"), "mean_difference"] == pytest.approx(-(1 / 6) / 5)
    assert table.loc[("bud", "DRO"), "mean_difference"] == 0
    separation = pd.read_csv(tmp_path / "out" / "label-noise-separation.csv").set_index("method")
    assert separation["auc"].to_dict() == {"ERM": 1, "DRO": 1}
    text = page.read_text()
    assert "**DRO** has a mean Dice of 96.7" in text
    assert "(-3.3 [" in text
    assert (tmp_path / "out" / "label-noise.png").stat().st_size > 10_000
    before = len(nnunet.commands)
    run(study, seeds=(0,), methods=("DRO",), **options)
    assert len(nnunet.commands) == before


def test_command_line_says_what_to_put_right_in_one_line(tmp_path, capsys):
    assert main(["--work", str(tmp_path / "work"), "--data", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("label_noise: `data` must be a folder")
    assert said.count("\n") == 1


@pytest.mark.slow
def test_quick_run_with_nnunet(tmp_path):
    work, out = tmp_path / "work", tmp_path / "out"
    assert main(["--work", str(work), "--out", str(out), "--quick"]) == 0

    seed = work / "label-noise-phantoms-quick" / "seed0"
    table = pd.read_csv(out / "label-noise-all.csv").set_index(["label", "method"])
    for method in QUICK_METHODS:
        scores = pd.read_csv(seed / "evaluation" / method / "scores.csv")
        assert table.loc[(ALL_LABELS, method), "mean"] == pytest.approx(scores["dice"].mean())
    cases = pd.read_csv(out / "label-noise-cases.csv")
    assert cases["method"].value_counts().to_dict() == {"ERM": 20, "L2RW": 20}
    noise = pd.read_csv(seed / "nnUNet_raw" / "Dataset913_NoisyPhantoms" / NOISE_FILE).set_index("case")["kind"]
    assert cases.set_index("case")["kind"].to_dict() == noise.to_dict()
    (log,) = (seed / "nnUNet_results").rglob("weights.csv")
    seen = pd.read_csv(log).query("epoch > 0 and times_seen > 0")
    mean = (seen["weight"] * seen["times_seen"]).groupby(seen["case"]).sum() / seen.groupby("case")["times_seen"].sum()
    of_l2rw = cases[cases["method"] == "L2RW"].set_index("case")["value"].dropna()
    assert of_l2rw.to_dict() == pytest.approx(mean.to_dict(), abs=1e-5)
    text = (out / "label-noise.md").read_text()
    assert "Smoke run" in text
    assert "What came out" not in text
    # Nothing that the trainers read says which cases are wrong.
    (training_log,) = [path for path in (seed / "nnUNet_results").rglob("training.csv") if "L2RW" in str(path)]
    assert not any(word in training_log.read_text() for word in (*KINDS, "kind"))
