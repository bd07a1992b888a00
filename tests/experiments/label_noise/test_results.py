import pandas as pd
import pytest

from experiments.label_noise.experiment import training_cases, unlearnt
from experiments.label_noise.trainings import RIGHT, phantoms, roles
from experiments.nnunet_runs.results import ALL_LABELS
from experiments.spoilt_labels.separation import separation_rows, separation_table
from experiments.spoilt_labels.spoiling import KINDS, NOISE_FILE


def made_cases(method, signal, values, losses, kinds, trusted=(), seed=0, rare=()):
    n = len(values)
    place = pd.Series(values).rank(method="first", ascending=signal == "weight").astype(int)
    columns = {
        "case": [f"case{i}" for i in range(n)],
        "kind": kinds,
        "value": values,
        "loss": losses,
        "place": place,
    }
    columns |= {"trusted": [i in trusted for i in range(n)], "rare": [i in rare for i in range(n)]}
    return pd.DataFrame(columns).assign(
        method=method, seed=seed, signal=signal, times_seen=range(n), share=1 / n
    )


def test_auc_is_that_of_wrong_cases_with_low_weights_or_high_losses():
    kinds = ["clean", "clean", "clean", "swapped", "shifted", "eroded"]
    weights = [0.2, 1.0, 1.2, 0.1, 0.5, 1.1]
    losses = [0.1, 0.2, 0.3, 0.9, 0.8, 0.05]
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
    made = made_cases(
        "ERM", "loss", [1.0] * 4 + [0.0] * 2 + [0.5] * 30, [0.0] * 36, kinds, trusted=(6,)
    )

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
    assert shown["right but rare of the first 20"] == "2.0"
    assert row["auc_against_rare"] == 1, "the wrong one is the hardest"
    assert row["share_rare"] == pytest.approx(3 / 25)


def test_page_shows_means_of_the_seeds():
    kinds = ["clean", "swapped"]
    values = {0: [0, 1], 1: [1, 0]}
    parts = [made_cases("ERM", "loss", of, of, kinds, seed=seed) for seed, of in values.items()]

    (row,) = separation_rows(separation_table(pd.concat(parts))).to_dict("records")

    assert row["AUC"] == 0.5
    assert row["wrong of the first 20"] == "1.0"


def made_scores(means, **columns):
    """Rows as of the file: mean Dice by method and seed, the same for every label and stratum."""
    data = phantoms(quick=False).data
    rows = [
        {
            "seed": seed,
            "method": method,
            "stratum": stratum,
            "label": label,
            "mean": mean,
            **columns,
        }
        for method, of_seeds in means.items()
        for seed, mean in enumerate(of_seeds)
        for stratum in roles(data).strata
        for label in (ALL_LABELS, *data.labels)
    ]
    return pd.DataFrame(rows).assign(p10=0.5, cpu_seconds=60.0)


def test_trainings_were_long_enough_if_right_labels_give_every_label():
    data = phantoms(quick=False).data
    scores = made_scores({"ERM": [0.5, 0.5], RIGHT: [0.9, 0.9]})

    assert unlearnt(scores, data) == []

    is_low = (
        (scores["method"] == RIGHT)
        & (scores["seed"] == 1)
        & scores["stratum"].isin(["rare", "control"])
    )
    scores.loc[is_low & (scores["label"] == "cerebellum"), "mean"] = 0.8

    assert unlearnt(scores, data) == ["seed 1, control: cerebellum"], "the rare one does not count"


def write_log(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)


WEIGHTS = ["epoch", "case", "weight", "times_seen"]
HARDNESS = ["epoch", "case", "loss", "probability", "draws"]


@pytest.fixture
def finished(tmp_path):
    """Three epochs, of which the first does not count, of a weighted and of a plain training."""
    raw = tmp_path / "raw"
    write_log(
        raw / NOISE_FILE,
        ["case", "kind"],
        [("a", "clean"), ("b", "swapped"), ("c", "clean")],
    )
    cases = [("a", "yes", "control"), ("b", "no", "control"), ("c", "no", "rare")]
    write_log(raw / "cases.csv", ["case", "trusted", "pathology"], cases)
    weights = [
        (0, "a", 0, 9),
        (0, "b", 9, 9),
        (0, "c", 0, 9),
        (1, "a", 1.5, 2),
        (1, "b", 0.5, 1),
        (1, "c", None, 0),
    ]
    weights += [(2, "a", 1.0, 2), (2, "b", 0.0, 3), (2, "c", 1, 2)]
    losses = [
        (e, case, loss, 0.3, 1)
        for e in range(3)
        for case, loss in (("a", 0.1), ("b", 0.9 + e), ("c", 0.2))
    ]
    write_log(tmp_path / "L2RW" / "weights.csv", WEIGHTS, weights)
    for method in ("L2RW", "ERM"):
        write_log(tmp_path / method / "hardness.csv", HARDNESS, losses)
    return tmp_path


def test_training_cases_have_means_of_the_epochs_that_count(finished):
    cases = training_cases(finished / "L2RW", finished / "raw").set_index("case")
    assert cases["signal"].unique().tolist() == ["weight"]
    assert cases["value"].to_dict() == pytest.approx({"a": 1.25, "b": 0.5 / 4, "c": 1.0})
    assert cases["place"].to_dict() == {"b": 1, "c": 2, "a": 3}
    assert cases["times_seen"].to_dict() == {"a": 4, "b": 4, "c": 2}
    assert cases["trusted"].to_dict() == {"a": True, "b": False, "c": False}
    assert cases["rare"].to_dict() == {"a": False, "b": False, "c": True}
    assert cases.loc["b", "kind"] == "swapped"
    # Weight given: a 5, b 0.5, c 2.
    assert cases["share"].to_dict() == pytest.approx({"a": 5 / 7.5, "b": 0.5 / 7.5, "c": 2 / 7.5})
    assert cases.loc["b", "loss"] == pytest.approx((1.9 + 2.9) / 2)

    # Without weights there are losses.
    cases = training_cases(finished / "ERM", finished / "raw").set_index("case")
    assert cases["signal"].unique().tolist() == ["loss"]
    assert cases["value"].to_dict() == pytest.approx({"a": 0.1, "b": 2.4, "c": 0.2})
    assert cases["place"].to_dict() == {"b": 1, "c": 2, "a": 3}
    assert cases["share"].to_dict() == pytest.approx(dict.fromkeys("abc", 1 / 3))
