from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from nnunet_dro.evaluation.comparing.changed_failures import COLUMNS as FAILURE_COLUMNS
from nnunet_dro.evaluation.comparing.comparison import compare, notable
from nnunet_dro.evaluation.comparing.comparison_table import COLUMNS, TYPICAL
from nnunet_dro.evaluation.statistics import significance
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.intervals import difference_intervals, guaranteed_means
from nnunet_dro.evaluation.statistics.significance import (
    holm,
    paired_differences,
    typical_value,
    wilcoxon_p,
)
from nnunet_dro.evaluation.statistics.stratum_statistics import false_positives, summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata

NAN = float("nan")


def evaluation(values, *, by=None, cases=None, options=None, notes=(), n_reference=10, **columns):
    """Of one or several labels; `values` is a list, or label to list."""
    of_label = values if isinstance(values, dict) else {"one": values}
    n = len(next(iter(of_label.values())))
    cases = cases or [f"c{k:02}" for k in range(n)]
    parts = [
        pd.DataFrame(
            {"case": cases, "label": label, "dice": np.asarray(dice, dtype=float), **columns}
        )
        for label, dice in of_label.items()
    ]
    scores = pd.concat(parts, ignore_index=True)
    scores["n_reference"] = n_reference
    scores["n_prediction"], scores["prediction_ml"] = 10, 1.0
    metrics = [name for name in ("dice", "hd95", "nsd") if name in scores]
    strata = {"all": ["all"] * n} if by is None else by
    stratum_of_case = {
        name: pd.Series(
            pd.Categorical(s, categories=list(dict.fromkeys(s)), ordered=True),
            index=cases,
            name=name,
        )
        for name, s in strata.items()
    }
    table = summarise(scores, stratum_of_case, metrics=metrics, n_resamples=0)
    found = (worst_strata(table), false_positives(scores))
    about = {"options": options or {}}
    return Evaluation("m", scores, table, stratum_of_case, *found, about, tuple(notes))


def two(baseline, method, **options):
    return {"ERM": evaluation(baseline, **options), "DRO": evaluation(method, **options)}


def test_table_by_hand():
    by = {"centre": ["A", "A", "A", "B"]}
    comparison = compare(two([0.5, 0.6, 0.7, 0.9], [0.6, 0.6, 0.9, 0.8], by=by), n_resamples=100)

    first, second = comparison.table.to_dict("records")

    assert comparison.methods == ("ERM", "DRO")

    key = ("attribute", "stratum", "label", "metric", "baseline", "method", "n", "n_undefined")
    assert [first[name] for name in key] == ["centre", "A", "one", "dice", "ERM", "DRO", 3, 0]
    assert (
        first["mean_baseline"],
        first["mean_method"],
        first["mean_difference"],
    ) == pytest.approx((0.6, 0.7, 0.1))
    assert (first["median_difference"], first["max_difference"]) == pytest.approx((0.0, 0.2))
    assert [first[name] for name in ("wins", "ties", "losses")] == [2, 1, 0]
    assert [second[name] for name in ("stratum", "n", "wins", "ties", "losses")] == [
        "B",
        1,
        0,
        0,
        1,
    ]
    assert np.isnan(second["mean_difference_low"])

    parts = ("baseline", "method", "difference", "difference_low", "difference_high")
    statistics = ("mean", "std", "median", "iqr", "p75", "p25", "p10", "p5", "min", "max")
    expected = [*key, "n_left_out", "n_worst_baseline", "n_worst_method"]
    expected += [f"{s}_{part}" for s in statistics for part in parts]
    expected += ["wilcoxon_p", "holm_p", "wins", "ties", "losses"]
    expected += ["mean_difference_low_guaranteed", "mean_difference_high_guaranteed"]
    expected += ["typical_difference", "typical_difference_low", "typical_difference_high"]
    expected += FAILURE_COLUMNS

    assert (
        [*COLUMNS, *FAILURE_COLUMNS]
        == compare(two([0.5], [0.5]), n_resamples=0).table.columns.tolist()
        == expected
    )


@pytest.mark.parametrize("n", [201, 300])
def test_the_normal_place_of_many_differences_is_outside_the_exact_one(monkeypatch, n):
    normal = significance._signed_rank_place.__wrapped__(n)
    monkeypatch.setattr(significance, "_MOST_EXACT", n)
    assert 0 < significance._signed_rank_place.__wrapped__(n) - normal <= 2


def test_intervals_are_those_of_the_complete_pairs():
    rng = np.random.default_rng(0)
    baseline = rng.random(20)
    method = rng.random(20)
    baseline[3], method[7], baseline[9], method[9] = NAN, NAN, NAN, NAN
    row = compare(two(baseline, method)).table.iloc[0]

    defined = ~np.isnan(baseline + method)
    complete = (baseline[defined], method[defined])
    expected = difference_intervals([complete], bounded=[True])[0]
    (surely,) = guaranteed_means([method - baseline], bounded=[True], low=-1)

    found = [[row[f"{s}_difference_low"], row[f"{s}_difference_high"]] for s in STATISTICS]

    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(
        [row["mean_difference_low_guaranteed"], row["mean_difference_high_guaranteed"]], surely
    )
    assert (row["n"], row["n_undefined"]) == (20, 3)


def test_metrics_that_lack_the_same_values_are_noted_together():
    before = {"nsd": [0.5, 0.7], "hd95": [1.0, 2.0]}
    after = {"nsd": [NAN, 0.7], "hd95": [NAN, 2.0]}
    methods = {
        "ERM": evaluation([0.5, 0.7], **before),
        "DRO": evaluation([NAN, 0.7], **after),
    }

    notes = compare(methods, n_resamples=0).notes

    # Distances count otherwise than what is best at 1.
    beginnings = [note.partition(" has a value")[0] for note in notes if "pair" in note]
    assert beginnings == ["Dice, NSD: 1 pair", "HD95: 1 pair"]


def test_pairs_with_one_value_for_an_unknown_reason_are_left_out_and_noted():
    comparison = compare(two([NAN, 0.5, NAN], [0.0, 0.6, NAN]), n_resamples=0)
    assert len(comparison.notes) == 1
    assert "1 pair has a value in one method only" in comparison.notes[0]
    assert "unknown reason, and the pair is left out: ERM in c00 (one)" in comparison.notes[0]

    rows = [["ERM", 3, 2, 0.5], ["DRO", 3, 2, 0.6]]
    assert comparison.strata[["method", "n", "n_undefined", "mean"]].to_numpy().tolist() == rows


def test_less_is_better_for_distances():
    distances = {"ERM": [1.0, 2.0, 3.0], "DRO": [0.5, 2.0, 1.0]}
    comparison = compare(
        {name: evaluation([0.5] * 3, hd95=hd95) for name, hd95 in distances.items()}, n_resamples=0
    )

    row = comparison.table.set_index("metric").loc["hd95"]

    assert row["mean_difference"] == pytest.approx(-2.5 / 3)
    assert row[["wins", "ties", "losses"]].tolist() == [2, 1, 0]

    changed = [["hd95", "c02", -2.0], ["hd95", "c00", -0.5]]
    assert comparison.changed[["metric", "case", "difference"]].to_numpy().tolist() == changed


def test_three_methods_are_each_compared_with_the_first():
    evaluations = two([0.5, 0.5], [0.6, 0.6]) | {"[b]Ω": evaluation([0.4, 0.4])}
    comparison = compare(evaluations, n_resamples=0)

    assert comparison.table[["baseline", "method"]].to_numpy().tolist() == [
        ["ERM", "DRO"],
        ["ERM", "[b]Ω"],
    ]
    assert comparison.table["mean_difference"].tolist() == pytest.approx([0.1, -0.1])
    assert comparison.strata["method"].tolist() == ["ERM", "DRO", "[b]Ω"]
    assert comparison.strata.columns[0] == comparison.scores.columns[0] == "method"
    assert set(comparison.about["methods"]) == set(evaluations)


def test_changed_cases_are_the_five_largest_each_way():
    differences = np.array([0.0, *np.arange(1, 8), *-np.arange(1, 4)]) / 20
    by = {"case": ["A"] * 11, "centre": ["A"] * 5 + ["B"] * 6}

    changed = compare(two(np.full(11, 0.5), 0.5 + differences, by=by), n_resamples=0).changed

    assert changed["case"].tolist() == ["c07", "c06", "c05", "c04", "c03", "c10", "c09", "c08"]
    assert changed["difference"].tolist() == pytest.approx(
        [0.35, 0.3, 0.25, 0.2, 0.15, -0.15, -0.1, -0.05]
    )
    assert changed["centre"].tolist() == ["B", "B", "B", "A", "A", "B", "B", "B"]
    assert changed.columns[-2:].tolist() == ["case (stratum)", "centre"]


def test_wilcoxon_by_hand():
    # All five gains: the two extreme of 2^5 sign patterns.
    assert wilcoxon_p(np.array([0.1, 0.2, 0.3, 0.4, 0.5])) == pytest.approx(2 / 32)
    # A zero is no case: the same, and still exact.
    assert wilcoxon_p(np.array([0.1, 0.2, 0.0, 0.3, 0.4, 0.5])) == pytest.approx(2 / 32)
    assert wilcoxon_p(np.zeros(4)) == 1
    assert np.isnan(wilcoxon_p(np.array([])))
    assert all(0 < wilcoxon_p(np.resize([0.1, -0.1, 0.1], n)) <= 1 for n in (1, 2, 7, 60))


def test_differences_that_are_equal_but_for_rounding_are_ties():
    # Thirds lie as quarters do, whose differences are exact: three gains and two losses of a step.
    before, after = np.array([[1, 2, 3, 2, 0], [2, 3, 2, 1, 1]])
    for step in (1 / 3, 1 / 4):
        assert compare(two(before * step, after * step)).table["wilcoxon_p"].item() == 1

    # Of a patient, the order of the cases is no difference, and a small volume remains one.
    of_patient = np.array([np.mean([0.1, 0.2, 0.3])]), np.array([np.mean([0.3, 0.2, 0.1])])
    assert of_patient[0] != of_patient[1]
    assert paired_differences(*of_patient).tolist() == [0]
    assert paired_differences(np.array([1e-12]), np.array([2e-12])) == pytest.approx(1e-12)


def test_the_typical_difference_is_the_median_of_all_pairs_means():
    rng = np.random.default_rng(0)
    for values in (
        rng.normal(size=30),
        np.where(rng.random(40) < 0.6, 0, rng.normal(size=40)),
        np.array([0.3]),
    ):
        first, second = np.triu_indices(len(values))
        means = np.sort((values[first] + values[second]) / 2)
        middle, low, high = typical_value(values)
        assert middle == pytest.approx(np.median(means), abs=1e-15)
        assert np.isnan(low) == (len(values) < 6)
        # The critical value of 30 signed ranks in tables, 5 % two-sided, is 137.
        if len(values) == 30:
            assert (low, high) == (means[137], means[-138])

    assert np.isnan(typical_value(np.array([]))).all()


@pytest.mark.parametrize("n", [8, 20, 60])
def test_the_typical_difference_excludes_0_where_the_test_rejects(n):
    rng = np.random.default_rng(n)
    for shift in np.linspace(0, 1.2, 40):
        values = rng.normal(shift, 1, n)
        _, low, high = typical_value(values)
        # The exact p value, where scipy takes the normal approximation for many.
        assert (low > 0 or high < 0) == (stats.wilcoxon(values, method="exact").pvalue <= 0.05)


def test_the_typical_difference_of_a_comparison_is_that_of_its_cases():
    rng = np.random.default_rng(0)
    baseline = rng.random(20) / 2
    method = rng.random(20)
    row = compare(two(baseline, method)).table.iloc[0]

    assert tuple(row[list(TYPICAL)]) == pytest.approx(typical_value(method - baseline))

    none = compare(two(baseline, method), n_resamples=0).table.iloc[0]
    assert none[list(TYPICAL)].isna().tolist() == [False, True, True]


def test_holm_by_hand():
    # Sorted: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, each at least the one before.
    adjusted = holm(np.array([0.01, 0.04, NAN, 0.03, 0.005]))

    assert adjusted == pytest.approx([0.03, 0.06, NAN, 0.06, 0.02], nan_ok=True)
    assert holm(np.array([0.6, 0.9])).tolist() == [1, 1]
    assert holm(np.array([])).tolist() == []

    gains = np.arange(1, 7) / 100
    baseline = {"one": np.full(6, 0.5), "two": np.full(6, 0.5), "three": np.full(6, NAN)}
    method = {
        "one": 0.5 + gains,
        "two": 0.5 + gains * [1, -1, 1, -1, 1, -1],
        "three": np.full(6, NAN),
    }
    table = compare(
        two(baseline, method) | {"same": evaluation(method)}, n_resamples=0
    ).table.set_index("method")

    p = table.loc["DRO", "wilcoxon_p"].tolist()
    adjusted = table.loc["DRO", "holm_p"].tolist()

    assert p[0] == pytest.approx(2 / 64)
    assert adjusted == pytest.approx([2 * p[0], p[1], NAN], nan_ok=True)
    assert table.loc["same", "holm_p"].tolist() == pytest.approx(adjusted, nan_ok=True)


def test_other_cases_are_refused_by_name_or_left_out_with_a_note():
    erm = evaluation([0.1, 0.2, 0.3], cases=["a", "b", "d"])
    dro = evaluation([0.4, 0.5], cases=["d", "c"])

    evaluations = {"ERM": erm, "DRO": dro}

    with pytest.raises(ValueError, match=r"ERM lacks c; DRO lacks a, b\. Add --intersect"):
        compare(evaluations)

    with pytest.raises(ValueError, match=r"Unicode's form alone.* the same folder of references"):
        compare(
            {
                "ERM": evaluation([0.1], cases=["\u00fc"]),
                "DRO": evaluation([0.1], cases=["u\u0308"]),
            }
        )

    comparison = compare(evaluations, intersect=True, n_resamples=0)
    assert comparison.notes == ("Compared: 1 case; left out: 3 (ERM lacks c; DRO lacks a, b).",)
    assert comparison.scores[["method", "case"]].to_numpy().tolist() == [["ERM", "d"], ["DRO", "d"]]
    assert comparison.table["mean_difference"].tolist() == pytest.approx([0.1])
    assert comparison.stratum_of_case["all"].to_dict() == {"d": "all"}


def with_distances_only():
    both = evaluation([0.5], hd95=[1.0])
    return replace(both, strata=both.strata[both.strata["metric"] == "hd95"].reset_index(drop=True))


def with_option(**options):
    return evaluation([1], options=options)


A, B = ({"by": {"centre": ["A", centre]}} for centre in "AB")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (evaluation([1], cases=["x"]), evaluation([1], cases=["y"]), "must have a case in common"),
        (
            evaluation({"one": [1]}),
            evaluation({"two": [1]}),
            "got different ones: a lacks two; b lacks one",
        ),
        (
            evaluation([0.5]),
            with_distances_only(),
            "metric in common, got none: a has dice; b has hd95",
        ),
        (
            with_option(empty="one"),
            with_option(empty="worst"),
            "`empty` must .* 'one' in a and 'worst' in b",
        ),
        (
            with_option(missing="error"),
            with_option(missing="worst"),
            "`missing` must .* 'error' in a and 'worst' in b",
        ),
        (
            evaluation([1, 1], n_reference=[9, 7]),
            evaluation([1, 1], n_reference=[9, 8]),
            "`c01` must have the same reference .* got 7 voxels in a and 8 in b of 'one'",
        ),
        (
            evaluation([1], hd95=[2.0], reference_ml=[NAN]),
            evaluation([1], hd95=[1.0], reference_ml=[0.01]),
            "must measure in one unit, got pixels in a alone",
        ),
        (
            evaluation([1], nsd=[0.5], reference_ml=[NAN]),
            evaluation([1], nsd=[0.6], reference_ml=[0.01]),
            "must measure in one unit, got pixels in a alone",
        ),
        (
            evaluation([1, 1], hd95=[2.0, 2.0], reference_ml=[0.01, 0.01]),
            evaluation([1, 1], hd95=[1.0, 1.0], reference_ml=[0.01, 0.02]),
            "`c01` must have the same voxel size .* got 0.01 ml in a and 0.02 in b of 'one'",
        ),
        (
            evaluation([1, 1], **A),
            evaluation([1, 1], **B),
            "`c01` must be in .* 'A' in a and 'B' in b of 'centre'",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(first, second, message):
    with pytest.raises(ValueError, match=message):
        compare({"a": first, "b": second}, intersect=True)


def of_references(**sha256):
    """An evaluation that records the SHA-256 of its reference files, case by case."""
    made = evaluation([1, 1])
    digests = {case: [digest, "of the prediction"] for case, digest in sha256.items()}
    return replace(made, about={**made.about, "inputs": {"files_sha256": digests}})


def test_other_reference_files_of_the_same_size_are_named():
    """References that were corrected, or moved, can have as many voxels as before."""
    baseline = of_references(c00="1", c01="2")
    same = of_references(c00="1", c01="2")
    other = of_references(c00="1", c01="3")

    note = (
        "The reference files of other are not those of baseline, for c01: check that they hold "
        "the same label maps."
    )
    methods = {"baseline": baseline, "same": same, "other": other}
    assert note in compare(methods).notes

    for method in (same, of_references(), evaluation([1, 1])):
        assert compare({"baseline": baseline, "method": method}).notes == ()


def test_it_is_said_how_patients_count_where_evaluations_differ():
    erm, dro = two([0.5, 1, 1], [1, 1, 1]).values()
    dro = replace(dro, about={"options": {"patient": "who", "patient_score": "worst"}})

    note = "Patients count as in {}, although {} counted them in another way (--patient)."
    assert compare({"ERM": erm, "DRO": dro}).notes == (note.format("ERM", "DRO"),)
    assert compare({"DRO": dro, "ERM": erm}).notes == (note.format("DRO", "ERM"),)
    assert compare({"DRO": dro, "same": dro}).notes == ()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["ERM"], "at least two methods, got ERM"),
        (["ERM", " "], "got ' '"),
        (["ERM", "ERM "], "got 'ERM' twice"),
    ],
)
def test_methods_must_have_names_of_their_own(names, message):
    with pytest.raises(ValueError, match=message):
        compare(dict.fromkeys(names, evaluation([1])))


def test_what_is_not_known_or_not_compared_may_differ():
    tolerance = {"options": {"nsd_tolerance_mm": 1}, "notes": ["Two extra predictions."]}
    erm = evaluation([1.0], hd95=[1.0], n_reference=NAN, **tolerance)
    dro = evaluation([0.5], n_reference=8, options={"nsd_tolerance_mm": 2})

    comparison = compare({"ERM": erm, "DRO": dro}, n_resamples=0)

    assert comparison.table[["metric", "mean_difference"]].to_numpy().tolist() == [["dice", -0.5]]

    lacking = "Only the metrics that all methods have are compared: DRO lacks hd95."
    assert comparison.notes == (lacking, "ERM: Two extra predictions.")


def test_evaluations_without_a_stratum_are_compared_over_all_cases():
    pair = {name: evaluation(values) for name, values in (("A", [0.5, 0.7]), ("B", [0.7, 0.9]))}
    expected = compare(pair, n_resamples=0).table
    without = {name: replace(one, stratum_of_case={}) for name, one in pair.items()}
    pd.testing.assert_frame_equal(compare(without, n_resamples=0).table, expected)


@pytest.mark.parametrize("by", [["age", "age:q2"], ["age:q2", "age"]])
def test_a_cut_that_an_attribute_of_the_evaluation_is_counts_once(by):
    halves = {"age": ["q1: 3 to 40", "q1: 3 to 40", "q2: 50 to 70", "q2: 50 to 70"]}
    pair = two([0.1] * 4, [0.2] * 4, by=halves, age=["3", "40", "50", "70"])

    strata = compare(pair, by=by, n_resamples=0).stratum_of_case
    other_cut = compare(pair, by=[*by, "age:0,18,100"], n_resamples=0).stratum_of_case

    assert {name: list(entries) for name, entries in strata.items()} == halves
    assert list(other_cut) == ["age", "age:0,18,100"]


def test_by_takes_the_cut_of_the_evaluation_in_any_form_of_unicode():
    halves = {"ma\u00df\u00fc": ["q1: 3 to 40", "q1: 3 to 40", "q2: 50 to 70", "q2: 50 to 70"]}
    columns = {"ma\u00df\u00fc": ["3", "40", "50", "70"]}
    pair = two([0.1] * 4, [0.2] * 4, by=halves, **columns)

    strata = compare(pair, by=["ma\u00dfu\u0308"], n_resamples=0).stratum_of_case

    assert {name: list(entries) for name, entries in strata.items()} == halves


def test_by_takes_attributes_and_columns_of_the_case_table():
    options = {
        "by": {"centre": ["A", "B", "A", "B"]},
        "age": ["3", "40", "50", "70"],
        "method": "x",
    }
    evaluations = {name: evaluation([0.1, 0.2, 0.3, 0.4], **options) for name in ("ERM", "DRO")}

    comparison = compare(evaluations, by=["age:0,18,100", "centre", "age"], n_resamples=0)

    assert list(comparison.stratum_of_case) == ["age:0,18,100", "centre", "age"]
    assert comparison.stratum_of_case["age:0,18,100"].tolist() == [
        "0 to 18",
        "18 to 100",
        "18 to 100",
        "18 to 100",
    ]
    assert list(compare(evaluations, by=["age:0,18,100"], n_resamples=0).stratum_of_case) == ["age"]
    assert comparison.table["stratum"].tolist() == [
        "0 to 18",
        "18 to 100",
        "A",
        "B",
        "3",
        "40",
        "50",
        "70",
    ]
    assert "method (case table)" in comparison.scores.columns

    uncut = {"by": {"age": ["3", "40", "50", "70"]}, "age": options["age"]}
    cut = compare(
        {name: evaluation([0.1, 0.2, 0.3, 0.4], **uncut) for name in "AB"},
        by=["age:0,18,100"],
        n_resamples=0,
    )

    assert list(cut.table["n"]) == [1, 3], "no stratum of the uncut column"
    # Nor of the uncut column of an evaluation without strata.
    divided = evaluation([0.1] * 4, by=cut.stratum_of_case, age=options["age"])
    assert list(
        compare({"A": divided, "B": replace(divided, stratum_of_case={})}, n_resamples=0).table["n"]
    ) == [1, 3]
    with pytest.raises(ValueError, match="'scanner'"):
        compare(evaluations, by=["scanner"])


def test_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    evaluations = two(
        {"one": rng.random(20), "two": rng.random(20)},
        {"one": rng.random(20), "two": rng.random(20)},
    )
    shuffled = dict(evaluations)

    shuffled["DRO"] = replace(
        evaluations["DRO"], scores=evaluations["DRO"].scores.sample(frac=1, random_state=1)
    )

    pd.testing.assert_frame_equal(compare(shuffled).table, compare(evaluations).table)


@pytest.mark.parametrize(
    ("difference", "metric", "statistic", "is_notable"),
    [
        (0.35 - 0.3, "dice", "mean", True),
        (0.049, "dice", "mean", False),
        (-0.1, "dice", "mean", False),
        (-0.1, "dice", "iqr", True),
        (0.1, "dice", "std", False),
        (-10.0, "hd95", "mean", False),
        (NAN, "dice", "mean", False),
    ],
)
def test_notable_is_five_points_for_the_better(difference, metric, statistic, is_notable):
    assert notable(difference, metric, statistic=statistic) is is_notable
