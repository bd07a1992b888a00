import pandas as pd
import pytest

from experiments.few_data.results import ALL_CASES, long_pair, summary
from experiments.few_data.studies import (
    LONG,
    LONG_GILS,
)
from experiments.nnunet_runs.results import ALL_LABELS, Results
from experiments.nnunet_runs.study import BASELINE
from tests.experiments.few_data.made_study import few_data_study

PLAIN = "nnUNetTrainerHWS_beta0"


def made_dice(shift):
    """Two seeds, three cases of a usual and one of a rare stratum; GI-LS better by ``shift`` in the rare one."""
    rows = []
    for method in (BASELINE, "GI-LS"):
        for seed in (0, 1):
            for case, stratum in (("a", "usual"), ("b", "usual"), ("c", "usual"), ("r", "rare")):
                value = {"a": 0.5, "b": 0.6, "c": 0.7, "r": 0.2}[case] + 0.1 * seed
                better = shift if method == "GI-LS" and stratum == "rare" else 0
                rows.append((method, seed, case, stratum, value + better))
    return pd.DataFrame(rows, columns=["method", "seed", "case", "stratum", "dice"]).assign(label=ALL_LABELS)


def test_summary_has_all_seeds_together_and_each_and_the_cases_in_no_training():
    study = few_data_study(trainers={BASELINE: PLAIN, "GI-LS": "nnUNetTrainerGILS"})
    results = Results(study, (BASELINE, "GI-LS"), made_dice(0.4), pd.DataFrame())
    table = summary(results).set_index(["cases", "seed", "method"])
    assert table.loc[(ALL_CASES, "0, 1", "GI-LS"), "mean_difference"] == pytest.approx(0.1)
    assert table.loc[("rare (in no training)", "1", "GI-LS"), ["mean", "mean_difference"]].tolist() == pytest.approx(
        [0.7, 0.4]
    )
    seen = table.loc[("usual (as in training)", "0, 1", "GI-LS")]
    assert (seen["n_cases"], seen["mean"], seen["mean_difference"]) == (6, pytest.approx(0.65), 0)
    assert table.loc[(ALL_CASES, "0, 1", BASELINE), "n_cases"] == 8
    # p25 of 0.2, 0.5, 0.6, 0.7.
    assert table.loc[(ALL_CASES, "0", BASELINE), "p25"] == pytest.approx(0.425)
    assert set(table.index.get_level_values("seed")) == {"0, 1", "0", "1"}


def test_long_trainings_are_compared_with_each_other_on_the_seeds_both_have():
    dice = made_dice(0.4).replace({"method": {BASELINE: LONG, "GI-LS": LONG_GILS}})
    dice = dice[(dice["method"] == LONG) | (dice["seed"] == 1)]
    study = few_data_study(trainers={BASELINE: PLAIN, LONG: PLAIN, LONG_GILS: "nnUNetTrainerGILS"})
    results = Results(study, (BASELINE, LONG, LONG_GILS), dice, pd.DataFrame())
    table = long_pair(results).set_index(["cases", "seed"])
    assert table.loc[("rare (in no training)", "1"), "mean_difference"] == pytest.approx(0.4)
    assert (table.loc[(ALL_CASES, "1"), "n_cases"], table.loc[(ALL_CASES, "1"), "seeds_better"]) == (4, 1)
    assert long_pair(Results(study, (BASELINE, LONG), dice, pd.DataFrame())).empty
