import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation import METRICS, STATISTICS, summarise
from nnunet_dro.tuning.objective import Objective, parse_objective, strata_for

#: Two labels of two centres, three cases each.
DICE = {
    ("A", "organ"): (0.9, 0.8, 0.7),
    ("B", "organ"): (0.6, 0.5, 0.1),
    ("A", "core"): (0.5, 0.5, 0.5),
}
DICE[("B", "core")] = (0.3, 0.2, np.nan)


def strata(values=DICE, metric="dice", by="centre"):
    rows = [
        {"case": f"{centre}{n}", "label": label, metric: value}
        for (centre, label), scores in values.items()
        for n, value in enumerate(scores)
    ]
    scores = pd.DataFrame(rows)
    cases = scores["case"].unique()
    stratum_of_case = pd.Series([case[0] if by else "all" for case in cases], index=cases)
    return summarise(scores, {by or "all": stratum_of_case}, metrics=[metric], n_resamples=0)


ORGAN = (0.9, 0.8, 0.7, 0.6, 0.5, 0.1)
CORE = (0.5, 0.5, 0.5, 0.3, 0.2)
DISTANCES = {("A", "organ"): (1.0, 3.0), ("B", "organ"): (5.0, 7.0)}
WITHOUT_VALUE = {("A", "organ"): (0.9, 0.7), ("B", "organ"): (np.nan, np.nan)}


@pytest.mark.parametrize(
    ("text", "made", "expected"),
    [
        # The mean over the labels is (0.8 + 0.5) / 2 in A, (0.4 + 0.25) / 2 in B.
        ("mean by centre worst", strata(), 0.325),
        ("mean by centre mean", strata(), (0.65 + 0.325) / 2),
        # Interpolated: p10 of (0.7, 0.8, 0.9) is 0.72, of (0.1, 0.5, 0.6) 0.18, of (0.2, 0.3) 0.21.
        ("p10 by centre mean", strata(), np.mean([(0.72 + 0.5) / 2, (0.18 + 0.21) / 2])),
        # Without strata all cases are one.
        ("p5", strata(by=None), (np.percentile(ORGAN, 5) + np.percentile(CORE, 5)) / 2),
        # The worst distance and the worst spread are the largest.
        ("mean of hd95 by centre worst", strata(DISTANCES, "hd95"), 6.0),
        ("iqr by centre worst", strata(), (0.25 + 0.05) / 2),
        (
            "std by centre worst",
            strata(),
            (np.std([0.6, 0.5, 0.1], ddof=1) + np.std([0.3, 0.2], ddof=1)) / 2,
        ),
        # A stratum without a value is left out.
        ("mean by centre worst", strata(WITHOUT_VALUE), 0.8),
    ],
)
def test_value_is_that_of_the_words(text, made, expected):
    objective = parse_objective(text)
    assert objective.value(made) == pytest.approx(expected)
    # Distances and spreads are minimised.
    assert objective.maximise != any(word in text for word in ("hd95", "iqr", "std"))


def test_values_and_columns_must_be_there(tmp_path):
    with pytest.raises(ValueError, match="must be computed from cases with a value, got none"):
        parse_objective("mean").value(strata({("A", "organ"): (np.nan,)}, by=None))

    table = tmp_path / "cases.csv"
    table.write_text("case,centre\na,A\nb,B\nnobody,C\n")
    assert strata_for(parse_objective("mean by centre worst"), table, ["a", "b"]) == ["a=A", "b=B"]
    assert strata_for(parse_objective("mean"), None, ["a", "b"]) == []
    message = r"`by` must be a column of the case table, got 'scanner'\. Choose from: centre"

    with pytest.raises(ValueError, match=message):
        strata_for(parse_objective("mean by scanner worst"), table, ["a", "b"])
    with pytest.raises(ValueError, match="for `by centre`, got none"):
        strata_for(parse_objective("mean by centre worst"), None, ["a", "b"])
    with pytest.raises(ValueError, match="got none for c"):
        strata_for(parse_objective("mean by centre worst"), table, ["a", "c"])


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize(
    "metric",
    [n for n, m in METRICS.items() if not (m.on_lesions or m.is_signed or m.is_only_read)],
)
def test_every_statistic_of_every_metric_can_be_asked_for(statistic, metric):
    objective = parse_objective(f"{statistic} of {metric} by age:0,18,65 mean")
    assert objective == Objective(statistic, metric, "age:0,18,65", "mean")
    assert parse_objective(objective.text) == objective


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "STATISTIC [of METRIC]"),
        ("mean of hd95_surface_mist", "must have a known metric, got 'hd95_surface_mist'"),
        ("mean of lesion_f1", "must have a known metric, got 'lesion_f1'"),
        ("p10 by centre", "worst|mean"),
        ("p10 centre worst", "STATISTIC [of METRIC]"),
        ("p11", "got 'p11' in 'p11'. Choose from: mean, std"),
        ("n", "begin with a statistic"),
        ("mean of accuracy", "got 'accuracy'"),
        ("mean of", "STATISTIC [of METRIC]"),
    ],
)
def test_what_is_no_objective_is_refused_in_one_line(text, message):
    with pytest.raises(ValueError) as error:
        parse_objective(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
