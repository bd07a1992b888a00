"""Several trainings of each method: cases and trainings are crossed, and intervals hold for other
ones of both."""

import html
import shutil

import numpy as np
import pytest
from scipy import stats

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.comparing.trainings import differences_over_trainings, training_pairs
from nnunet_dro.evaluation.report import comparison_html, comparison_markdown
from nnunet_dro.evaluation.report.strata_tables import strata_tables
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.statistics.intervals import difference_intervals
from tests.commands import done, run
from tests.evaluation.comparing.test_comparison import evaluation
from tests.evaluation.made_folders import (
    bars,
    check_refused,
    read_csv,
    run_evaluate,
    write_map,
    write_study,
)

MEAN = list(STATISTICS).index("mean")
ENDS = ["mean_difference_low", "mean_difference_high"]
NAN = float("nan")


def crossed(rng, n_trainings, n_cases, *, training, case, rest=0.02, middle=0.5):
    """Values of a method: what a training does on all cases, what a case is for all trainings, and
    the rest."""
    effects = training * rng.normal(size=(n_trainings, 1)) + case * rng.normal(size=(1, n_cases))
    return middle + effects + rest * rng.normal(size=(n_trainings, n_cases))


@pytest.mark.parametrize(("n_baseline", "n_method"), [(4, 4), (5, 3)])
def test_the_interval_of_the_mean_puts_two_intervals_of_scipy_together(n_baseline, n_method):
    rng = np.random.default_rng(1)
    before = crossed(rng, n_baseline, 60, training=0.03, case=0.1, middle=0.4)
    after = crossed(rng, n_method, 60, training=0.03, case=0.1, middle=0.6)

    found = differences_over_trainings([(before, after)], bounded=[True])

    of_cases = stats.ttest_rel(after.mean(axis=0), before.mean(axis=0)).confidence_interval()
    if n_baseline == n_method:
        of_trainings = stats.ttest_rel(
            after.mean(axis=1), before.mean(axis=1)
        ).confidence_interval()
    else:
        of_trainings = stats.ttest_ind(
            after.mean(axis=1), before.mean(axis=1), equal_var=False
        ).confidence_interval()
    middle = after.mean() - before.mean()

    half = np.hypot(of_cases.high - middle, of_trainings.high - middle)

    np.testing.assert_allclose(
        found.loc[0, ENDS].tolist(), [middle - half, middle + half], rtol=1e-9
    )


@pytest.mark.parametrize("training", [0.0, 0.05])
def test_the_interval_covers_what_that_of_the_cases_alone_does_not(training):
    # The spread of cases makes an error of 0.07 / sqrt(60) = 0.009, that of trainings one of 0.05 /
    # sqrt(3) = 0.029.
    rng = np.random.default_rng(2)
    pairs = []
    for _ in range(300):
        baseline = crossed(rng, 3, 60, training=0.0, case=0.0)
        pairs.append(
            (baseline, baseline + crossed(rng, 3, 60, training=training, case=0.07, middle=0.1))
        )

    low, high = differences_over_trainings(pairs, bounded=[False] * 300)[ENDS].to_numpy().T

    means = [(before.mean(axis=0), after.mean(axis=0)) for before, after in pairs]
    of_cases = difference_intervals(means, bounded=[False] * 300)[:, MEAN].T

    coverage, alone = (
        ((below < 0.1) & (above > 0.1)).mean() for below, above in ((low, high), of_cases)
    )

    assert coverage > 0.93
    assert (alone < 0.6) == (training > 0)


@pytest.mark.parametrize(("is_bounded", "most"), [(True, 1.0), (False, 1.49)])
def test_no_interval_reaches_beyond_what_a_score_allows(is_bounded, most):
    before = np.zeros((3, 8))
    after = before + np.array([[0.1], [0.5], [0.9]])

    found = differences_over_trainings([(before, after)], bounded=[is_bounded])

    bounds = found.filter(regex="_difference_(low|high)").to_numpy()
    assert np.nanmax(np.abs(bounds)) == pytest.approx(most, abs=0.01)


def test_what_the_trainings_of_a_pair_share_cancels():
    rng = np.random.default_rng(3)
    shared = 0.1 * rng.normal(size=(5, 1))
    before, after = (0.5 + shared + 0.01 * rng.normal(size=(5, 60)) for _ in range(2))
    pairs = [(before, after), (before, after[[1, 2, 3, 4, 0]])]

    in_order, mixed = differences_over_trainings(pairs, bounded=[False] * 2)[ENDS].to_numpy()

    assert np.diff(in_order) < 0.02
    assert np.diff(mixed) > 0.1


def test_pairs_are_by_position_or_all():
    assert training_pairs(3, 3) == [(0, 0), (1, 1), (2, 2)]
    assert training_pairs(2, 1) == [(0, 0), (1, 0)]
    with pytest.raises(ValueError, match=r"name every method once, got 'a, training 2' twice"):
        compare({"a, training 2": trainings(0.5), "a": trainings(0.5, 0.6)})
    with pytest.raises(ValueError, match="one or more of each method, got none of 'b'"):
        compare({"a": trainings(0.5), "b": []})


def trainings(*means, n=60):
    return [evaluation(np.linspace(mean - 0.1, mean + 0.1, n)) for mean in means]


def test_the_table_has_means_over_the_trainings_and_their_range():
    comparison = compare(
        {"ERM": trainings(0.5, 0.6, 0.4), "DRO": trainings(0.6, 0.65, 0.55)}, n_resamples=50
    )
    (row,) = comparison.table.to_dict("records")

    assert (row["mean_baseline"], row["mean_method"], row["mean_difference"]) == pytest.approx(
        (0.5, 0.6, 0.1)
    )
    assert (row["mean_difference_lowest"], row["mean_difference_highest"]) == pytest.approx(
        (0.05, 0.15)
    )
    assert (row["n"], row["n_trainings_baseline"], row["n_trainings_method"]) == (60, 3, 3)

    # Three differences of 0.05, 0.1 and 0.15, and cases that all differ by the same.
    half = stats.t.ppf(0.975, 2) * 0.05 / np.sqrt(3)
    assert (row["mean_difference_low"], row["mean_difference_high"]) == pytest.approx(
        (0.1 - half, 0.1 + half)
    )
    assert np.isnan([row["wilcoxon_p"], row["holm_p"]]).all()
    assert row["wins"] == 60
    assert comparison.strata["mean"].tolist() == pytest.approx([0.5, 0.6])

    means = comparison.trainings.groupby("of", sort=False)["mean"].apply(list).to_dict()
    assert means == {"ERM": pytest.approx([0.5, 0.6, 0.4]), "DRO": pytest.approx([0.6, 0.65, 0.55])}
    assert comparison.scores.groupby("method", sort=False)["dice"].mean().tolist() == pytest.approx(
        [0.5, 0.6]
    )
    assert any(
        "Intervals hold for other cases and other trainings" in note for note in comparison.notes
    )


@pytest.mark.parametrize(
    ("baseline", "method"), [((0.5, 0.6), (0.6, 0.65)), ((0.5, 0.6, 0.4), (0.6,))]
)
def test_fewer_than_three_trainings_have_no_interval_over_trainings(baseline, method):
    comparison = compare({"ERM": trainings(*baseline), "DRO": trainings(*method)}, n_resamples=50)
    row = comparison.table.iloc[0]

    # All cases differ by the same: other cases would change nothing.
    assert row["mean_difference_high"] - row["mean_difference_low"] == pytest.approx(0)
    assert any(
        "one or two trainings do not tell how far trainings lie apart" in note
        for note in comparison.notes
    )


@pytest.mark.parametrize(
    ("n_trainings", "words"),
    [(2, "(nothing is known of other trainings)"), (3, "(for other trainings, Student's t)")],
)
def test_no_bound_is_guaranteed_for_other_trainings(n_trainings, words):
    means = {"ERM": (0.5, 0.6, 0.4), "DRO": (0.6, 0.65, 0.55)}
    given = {name: trainings(*means[name][:n_trainings]) for name in means}
    requirement = "mean_difference_low_guaranteed>=-90pt"
    comparison = compare(given, margin=5, requirements=[requirement])

    (outcome,) = comparison.outcomes
    assert outcome.line.endswith(f"the bound assumes only that Dice lies between 0 and 1 {words}")
    text = html.unescape(comparison_html(comparison))
    assert f"They assume only that Dice lies between 0 and 100 % {words}: " in text
    assert "surely" not in text

    alone = compare({name: runs[0] for name, runs in given.items()}, requirements=[requirement])
    assert alone.outcomes[0].line.endswith("lies between 0 and 1")


def test_what_several_trainings_lack_is_not_advised():
    given = {"ERM": trainings(0.5, 0.6, 0.4), "DRO": trainings(0.6, 0.65, 0.55)}
    advice = "What can be had with several trainings: --margin-bound t, by Student's t."
    for bound in (None, "typical"):
        comparison = compare(given, margin=1, margin_bound=bound)
        text = comparison_markdown(comparison).replace("\\", "")
        assert comparison.table["margin"].tolist() == ["cannot tell"]
        assert advice in text
        assert "new_failures" not in text
    assert "Dice has no typical difference to judge the margin by where a method has" in text

    distances = {
        name: [evaluation([0.9] * 8, hd95=np.arange(8.0)) for _ in range(3)] for name in given
    }
    requirement = "metric=hd95 mean_difference_high_guaranteed<=1mm"
    (outcome,) = compare(distances, requirements=[requirement]).outcomes
    assert outcome.line.endswith("ask for Student's t, mean_difference_high_t<=1")


def test_a_case_that_one_training_lacks_is_left_out_of_all():
    values = [np.linspace(0.4, 0.6, 10) for _ in range(3)]
    values[1][4] = NAN

    comparison = compare(
        {"ERM": [evaluation(v) for v in values], "DRO": evaluation(np.full(10, 0.7))}, n_resamples=0
    )

    assert comparison.table.loc[0, ["n", "n_undefined"]].tolist() == [10, 1]
    assert comparison.trainings["n"].tolist() == [9] * 4
    assert any(
        "Once a training lacks a value that another has" in note for note in comparison.notes
    )


def test_a_training_that_missed_a_label_counts_as_the_worst():
    missed = [evaluation([0.9, 0.9, 0.9], hd95=[1.0, 2.0, 3.0]) for _ in range(3)]
    missed[1].scores.loc[0, ["dice", "hd95", "n_prediction"]] = [0.0, NAN, 0]
    comparison = compare(
        {"ERM": evaluation([0.9] * 3, hd95=[1.0, 1.0, 7.0]), "DRO": missed}, n_resamples=0
    )

    row = comparison.table.set_index("metric").loc["hd95"]

    assert row["mean_method"] == pytest.approx((2 + (7 + 2 + 3) / 3 + 2) / 3)
    assert (row["n_worst_baseline"], row["n_worst_method"]) == (0, 1)
    assert "DRO, training 2 in c00 (one)" in " ".join(comparison.notes)


def test_few_cases_of_several_trainings_are_not_listed_but_counted():
    comparison = compare(
        {"A": [evaluation([0.3, 0.9]), evaluation([0.9, 0.3])], "B": evaluation([0.4, 0.6])}
    )
    ((_, table),) = strata_tables(comparison.strata)

    place = [column.title for column in table.columns].index("Values")

    assert {row[1].text: row[place].text for row in table.rows} == {"A": "", "B": "40.0, 60.0"}
    assert "95 % sure); of several trainings, in all of them together." in " ".join(table.notes)
    # There is no test whose p value would need a column.
    assert "Holm p" not in comparison_markdown(comparison)


def test_patients_are_what_is_independent_with_trainings_too():
    rng = np.random.default_rng(4)
    patients = np.repeat([f"p{n}" for n in range(60)], 3)
    of_patient = np.repeat(0.1 * rng.normal(size=60), 3)
    given = {}
    for name, middle in (("ERM", 0.4), ("DRO", 0.5)):
        values = middle + (of_patient if name == "DRO" else 0) + 0.01 * rng.normal(size=(3, 180))
        given[name] = [
            evaluation(of_training, p=patients, options={"patient": "p"}) for of_training in values
        ]
    with_patients = compare(given, n_resamples=20).table.iloc[0]
    for one in (*given["ERM"], *given["DRO"]):
        one.about["options"].clear()
    without = compare(given, n_resamples=20).table.iloc[0]

    widths = [
        row["mean_difference_high"] - row["mean_difference_low"] for row in (with_patients, without)
    ]

    assert widths[0] > 1.5 * widths[1]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Evaluations erm0 to erm2 and dro0 to dro2."""
    root = write_study(tmp_path_factory.mktemp("trainings"), shifts=[1] * 8)
    for method in ("erm", "dro"):
        for n in range(3):
            if method == "dro":
                write_map(root / "prediction" / f"case_{n:02}.nii.gz", bars(4))
            assert run_evaluate(root, out=f"{method}{n}").exit_code == 0
    return root


def test_the_command_takes_trainings_with_commas(study, tmp_path):
    erm, dro = (
        ",".join(str(study / f"{method}{n}") for n in range(3)) for method in ("erm", "dro")
    )

    result = done(
        run(
            "compare",
            f"ERM={erm}",
            f"DRO={dro}",
            "-o",
            tmp_path / "out",
            "--margin",
            1,
            "--bootstrap",
            50,
        )
    )

    table = read_csv(tmp_path / "out" / "comparison.csv").set_index("label")

    assert table.loc["tumour", ["mean_difference_lowest", "mean_difference_highest"]].tolist() == [
        0.25 / 8,
        0.75 / 8,
    ]
    assert (
        read_csv(tmp_path / "out" / "trainings.csv")["training"].tolist() == [1, 2, 3, 1, 2, 3] * 2
    )

    for name in ("report.html", "report.md"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "trainings +3.1 to +9.4" in text
        assert "other cases and other trainings" in text
    assert "+3.1 to +9.4" in result.stdout

    shutil.copytree(study / "erm0", study / "lr=1")

    done(
        run(
            "compare",
            f"A={study / 'lr=1'}",
            f"B={study / 'dro0'}",
            "-o",
            tmp_path / "one",
            "--bootstrap",
            0,
        )
    )


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            "a,b",
            "without a comma in their names, got '{root}/a,b'. A comma separates trainings. Rename",
        ),
        ("erm0,erm0", "different trainings, got '{root}/erm0' twice"),
        ("erm0,", "between two commas"),
        (
            "erm0,DRO=x",
            "got 'DRO=x'. The name ends at the first equals sign; a space goes between methods",
        ),
    ],
)
def test_unclear_folders_are_refused_in_one_line(study, tmp_path, entry, words):
    (study / "a,b").mkdir(exist_ok=True)
    folders = ",".join(
        str(study / part) if part and "=" not in part else part for part in entry.split(",")
    )
    folders = str(study / entry) if entry == "a,b" else folders
    result = run("compare", f"ERM={folders}", f"DRO={study / 'dro0'}", "-o", tmp_path / "out")
    check_refused(result, tmp_path, words.format(root=study))
