"""Requirements with confidence, and the number of cases that they need."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.judging.outcomes import check_requirements
from nnunet_dro.evaluation.judging.planning import (
    cases_needed,
    cases_to_collect,
    cases_with_label,
    worse_allowed,
)
from nnunet_dro.evaluation.judging.power import (
    Expected,
    cases_for_chance,
    chance_after_pilot,
    chance_to_meet,
)
from nnunet_dro.evaluation.judging.requirements import one_sided_of, parse_requirement
from nnunet_dro.evaluation.judging.subjects import COMPARISON, STRATA
from nnunet_dro.evaluation.report.command_tables import plan_table, planned_sizes
from nnunet_dro.evaluation.scoring.failures import most_failures
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from tests.commands import done, run
from tests.evaluation import made_folders as made
from tests.evaluation.comparing.test_comparison import two
from tests.pages.screen import screen


def outcome_of(values, text, **columns):
    cases = [f"c{n}" for n in range(len(values))]
    metric = "hd95" if "hd95" in text else "dice"
    scores = pd.DataFrame({"case": cases, "label": "tumour", metric: values, **columns})
    requirement = parse_requirement(text)
    strata = summarise(
        scores, metrics=[metric], n_resamples=0, one_sided=one_sided_of([requirement])
    )
    (outcome,) = check_requirements(strata, [requirement])
    return outcome


def planned(*arguments):
    """What the command says, as one line and as the words of each line."""
    output = done(run("plan", *arguments)).output
    lines = output.replace("(centre)", "").replace("%", "").splitlines()
    return " ".join(output.split()), [line.split() for line in lines]


def dice(n_below, n):
    return [0.6] * n_below + [0.8] * (n - n_below)


@pytest.mark.parametrize(
    ("text", "share", "expected"),
    [
        ("p5>=0.70@95", 0.05, [59, 93, 124, 153]),
        ("p10>=0.70@95", 0.1, [29, 46, 61]),
        ("metric=hd95 p75<=4@95", 0.25, [11, 18, 23]),
        ("p5>=0.70@95 n>=124", 0.05, [124, 124, 124, 153]),
    ],
)
def test_cases_needed(text, share, expected):
    assert [
        cases_needed(parse_requirement(text), n_worse=n) for n in range(len(expected))
    ] == expected
    # At the percentile itself, at most the allowed number of cases misses the bound in 5 % of the
    # samples.
    for n_worse, n in list(enumerate(expected))[2 * ("n>=" in text) :]:
        assert stats.binom.cdf(n_worse, n, share) <= 0.05 < stats.binom.cdf(n_worse, n - 1, share)


@pytest.mark.parametrize(
    ("requirement", "side"),
    [
        ("p5>=0.70@95", "below 0.70"),
        ("p5>0.70@95", "at or below 0.70"),
        ("metric=hd95 p75<=4@95", "above 4"),
        ("metric=hd95 p75<4@95", "at or above 4"),
    ],
)
def test_the_column_of_a_plan_says_which_cases_miss_the_bound(requirement, side):
    assert f"cases that may be {side}" in planned(requirement)[0]


@pytest.mark.parametrize(
    ("n_below", "n", "passed"), [(0, 58, False), (0, 59, True), (1, 92, False), (1, 93, True)]
)
def test_a_requirement_with_confidence_passes_with_enough_cases(n_below, n, passed):
    outcome = outcome_of(dice(n_below, n), "p5>=0.70@95")
    assert outcome.passed is passed
    assert worse_allowed(outcome.requirement, n) == n_below - (not passed)


def test_a_bound_that_does_not_exist_says_how_many_cases_it_needs():
    said = "p5 has no lower 95 % bound that could be >= 0.70 (58 cases); there is a bound from 59 cases on"
    assert outcome_of(dice(0, 58), "p5>=0.70@95").line == f"label=tumour: {said}"

    values = [1.0] * 10 + [5.0]

    assert outcome_of(values[:10] * 2, "metric=hd95 p75<=4@95").passed

    failed = outcome_of(values, "metric=hd95 p75<=4@95")
    assert failed.line.startswith(
        "label=tumour metric=hd95: p75's upper 95 % bound 5.000 mm is not <= 4 (11 cases)"
    )

    patients = pd.Series(
        np.repeat(np.arange(59), 2).astype(str), index=[f"c{n}" for n in range(118)]
    )
    scores = pd.DataFrame({"case": patients.index, "label": "tumour", "dice": dice(0, 118)})
    requirements = [parse_requirement("p5>=0.70@95")]
    options = {
        "patient_of_case": patients,
        "n_resamples": 0,
        "one_sided": one_sided_of(requirements),
    }

    for count, passed in ((118, True), (116, False)):
        assert (
            check_requirements(summarise(scores[:count], **options), requirements)[0].passed
            is passed
        )


@pytest.fixture
def pilot(tmp_path):
    """Twenty cases in A, all good, and ten in B, half of them bad."""
    made.write_study(tmp_path, shifts=[0] * 20 + [0, 4] * 5)
    cases = made.write_cases(tmp_path, centre=["A"] * 20 + ["B"] * 10)
    options = (
        "--require",
        "label=tumour centre=A p25>=0.70@95",
        "--require",
        "label=tumour p5>=0.70@95",
    )
    result = done(
        made.run_evaluate(tmp_path, "--cases", cases, "--by", "centre", *options, out="pilot"), 3
    )
    assert "centre=A label=tumour: p25" not in result.stderr
    return tmp_path / "pilot"


def test_a_pilot_tells_how_likely_few_fail(pilot):
    text, rows = planned("label=tumour centre=* failure_high<=20%", "--pilot", pilot, "--n", 100)
    of_a, of_b = (next(row for row in rows if row[:2] == ["tumour", name]) for name in "AB")
    assert of_a[2:4] == ["20", "0"]
    assert of_b[2:4] == ["10", "5"]

    allowed = worse_allowed(parse_requirement("failure_high<=20%"), 100)
    chance = stats.betabinom.cdf(allowed, 100, 0.5, 20.5)
    assert of_a[-1] == f"{100 * chance:.0f}"
    assert "failed" in text


def test_a_pilot_counts_failures_by_their_metric_alone(pilot):
    done(made.run_evaluate(pilot.parent, "--metrics", "dice,hd95", out="both"))
    refused = run("plan", "metric=hd95 failure_high<=20%", "--pilot", pilot.parent / "both")
    assert "must be about the metric of the failure dice<0.5" in done(refused, 2).stderr


def test_a_pilot_tells_how_likely_a_mean_is_high_enough(pilot):
    for bound, least in (("low_t", 20), ("low_guaranteed", 20)):
        words = ("--pilot", pilot, "--n", 400, "--n", least)
        text, rows = planned(f"label=tumour centre=* mean_{bound}>=0.9", *words)
        of_a, of_b = (next(row for row in rows if row[:2] == ["tumour", name]) for name in "AB")
        # Twenty cases without a fault; ten with a mean of 50 %.
        assert of_a[2:4] == ["20", "100.0"]
        assert of_b[2:] == ["10", "50.0", "0", "0"]
        assert of_a[-1] == "100"
        # What is proven needs more cases, even if all are alike.
        assert of_a[-2] == {"low_t": "100", "low_guaranteed": "0"}[bound]
        assert "cases like the pilot's" in text


def test_the_chance_after_a_pilot_is_that_of_its_values_and_their_number():
    requirement = parse_requirement("mean_low_t>=0.70")
    rng = np.random.default_rng(1)
    few = rng.beta(8, 2, 12)
    many = np.repeat(few, 50)
    n = 60
    # Of many cases the pilot's mean is known, of few it is not: the chance is nearer to a half.
    assert (few.mean() - 0.70) / few.std() * np.sqrt(n) > 2
    assert chance_after_pilot(requirement, many, n) > chance_after_pilot(requirement, few, n) + 0.05

    expected = chance_to_meet(requirement, Expected(few.mean(), few.std(ddof=1)), n)
    assert chance_after_pilot(requirement, many, n) == pytest.approx(expected, abs=0.1)
    # Five cases without a fault would promise 100 %.
    assert np.isnan(chance_after_pilot(requirement, np.ones(5), n))


def test_bounds_that_were_asked_for_are_columns(pilot):
    table = made.read_csv(pilot / "strata.csv").set_index(["stratum", "label"])

    assert table.loc[("A", "tumour"), "p25_low_95"] == 1
    assert table.columns[-2:].tolist() == ["p25_low_95", "p5_low_95"]

    _, rows = planned("label=tumour p5>=0.70@95", "--pilot", pilot, "--n", 40)

    assert ["59", "0"] in rows
    assert ["153", "3"] in rows
    assert any(row[:1] == ["40"] and "cannot" in row for row in rows)

    (of_a,) = [row for row in rows if row[:2] == ["tumour", "A"]]
    # The pilot's cases, those below, and the chance with 40 cases, which are too few.
    assert of_a[2:5] == ["20", "0", "0"]

    # With 59 cases none may be below: the beta-binomial probability of none among 59, given 0 of
    # 20.
    assert of_a[5] == f"{100 * stats.betabinom.pmf(0, 59, 0.5, 20.5):.0f}"

    (of_b,) = [row for row in rows if row[:2] == ["tumour", "B"]]
    assert of_b[3:6] == ["5", "0", "<1"], "with so few cases hardly ever"


@pytest.mark.parametrize("share", [0.875, 0.5, 0.97])
def test_so_many_of_the_collected_cases_have_the_label(share):
    """The planned number of cases, none of them bad, passes as often as it says; that of before
    hardly ever did."""
    rng = np.random.default_rng(0)
    requirement = parse_requirement("p5>=0.70@95")
    collected = cases_to_collect(59, share)

    passed = {
        n: np.mean(rng.binomial(n, share, 4000) >= cases_needed(requirement))
        for n in (59, collected)
    }

    # 0.0004 for a share of 0.875.
    assert passed[59] == pytest.approx(share**59, abs=0.02)
    assert 0.94 <= passed[collected] <= 0.99
    # One case less would be too few.
    assert stats.binom.sf(58, collected, share) >= 0.95 > stats.binom.sf(58, collected - 1, share)
    assert cases_with_label(collected, share) == 59 > cases_with_label(collected - 1, share)
    assert [cases_with_label(0, share), cases_with_label(59, 1.0), cases_to_collect(59, 1.0)] == [
        0,
        59,
        59,
    ]


def test_plan_takes_the_share_of_cases_with_the_label():
    text, rows = planned("label=tumour p5>=0.70@95", "--with-label", "0.875", "--n", 59)
    assert "with the label (95 % sure)" in text
    assert "The label is in 87.5 % of the cases, and only those count." in text
    assert ["73", "59", "0"] in rows
    assert any(row[:2] == ["59", "47"] and "cannot" in row for row in rows)
    assert (
        "Only cases with the label count. If not all have it"
        in planned("label=tumour p5>=0.70@95")[0]
    )


def without_tumour(root, *cases):
    for n in cases:
        for folder in ("reference", "prediction"):
            made.write_map(root / folder / f"case_{n:02}.nii.gz", made.bars(0))


def test_the_share_is_that_of_the_pilot(tmp_path):
    made.write_study(tmp_path, shifts=[0] * 16)
    without_tumour(tmp_path, 0, 1)
    cases = made.write_cases(tmp_path, centre=["A", "B"] + ["A"] * 3 + ["B"] * 11)
    made.run_evaluate(tmp_path, "--cases", cases, "--by", "centre", out="pilot")

    text, rows = planned(
        "label=tumour centre=* p5>=0.70@95", "--pilot", tmp_path / "pilot", "--n", 100
    )

    # Three of four cases of A, and eleven of twelve of B.
    said = "The label is in 75 % of the cases of that stratum of the pilot that has least, and only those count."

    assert said in text

    (of_b,) = [row for row in rows if "B" in row]
    assert of_b[2:4] == ["11", "0"]

    rng = np.random.default_rng(2)
    bad = rng.beta(0.5, 11.5, 20_000)
    with_label = rng.binomial(100, 11 / 12, 20_000)
    requirement = parse_requirement("p5>=0.70@95")
    allowed = np.array([worse_allowed(requirement, n) for n in range(101)])
    chance = np.mean(rng.binomial(with_label, bad) <= allowed[with_label])
    sizes = planned_sizes(requirement, [100], share=0.75)

    assert float(of_b[4 + sizes.index(100)]) == pytest.approx(100 * chance, abs=1.5)


def test_patients_of_a_pilot_count_once(tmp_path):
    """Ten patients with three cases each; one of them has a bad case, but a good mean, and one has
    no label at all."""
    made.write_study(tmp_path, shifts=[1] + [0] * 29)
    without_tumour(tmp_path, 27, 28, 29)
    cases = made.write_cases(tmp_path, patient=[f"p{n // 3}" for n in range(30)])
    made.run_evaluate(tmp_path, "--cases", cases, "--patient", "patient", out="pilot")

    text, rows = planned("label=tumour p5>=0.80@95", "--pilot", tmp_path / "pilot")

    assert "patients in each stratum" in text
    assert "The label is in 90 % of the patients, and only those count." in text

    (row,) = [row for row in rows if row[:1] == ["tumour"]]
    # The case has a Dice of 0.75, its patient 0.92.
    assert row[3:5] == ["9", "0"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *(
            (f"p5>=0.70@95 --with-label {share}", "`--with-label` must be a share")
            for share in ("0", "87.5", "nan")
        ),
        ("p5>=0.70", "must have a confidence to be planned"),
        ("p5>=0.70@95 --expect 2%", "`--expect` must come with a mean, a typical difference"),
        ("p5>=0.70@95 --spread 3pt", "`--spread` must come with a mean, got '3pt'"),
        ("failure_high>=10%", "must have a confidence to be planned"),
        ("failure_high<=0%", "or a bound that is easier to meet"),
        ("failure_high<=10% --expect 2pt", "`--expect` must be a share of cases"),
        ("mean_difference_low>=-1pt", "must say what the bound of the mean assumes"),
        ("typical_difference_low>=-1pt", "`--spread` must be given for typical_difference_low"),
        ("mean_difference_low_t>=-1pt --spread 3", "compare dice with a difference of fractions"),
        ("mean_difference_low_t>=-1pt --spread -3pt", "`--spread` must be 0 or more"),
        ("mean_difference_low_t>=-1pt --spread much", "`--spread` must be a number with its unit"),
        ("p5>=70@95", "compare dice with a fraction from 0 to 1"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments, words, tmp_path):
    made.check_refused(run("plan", *arguments.split()), tmp_path, words, "Write")


def test_a_stratum_of_the_pilot_without_the_label_tells_nothing():
    requirement = parse_requirement("p5>=0.70@95")
    chances = pd.DataFrame(
        {"attribute": "all", "stratum": "all", "label": ["a", "b"], "share": [1.0, 0.0]}
    )
    chances = chances.assign(n=[9, 0], n_worse=0, **{"59": 0.5})

    said = "The label is in 100 % of the cases, and only those count. Where the pilot has none, it tells nothing."

    assert said in screen(plan_table(requirement, [59], chances, share=1.0), width=200)


@pytest.mark.parametrize(
    ("text", "tail", "expected"),
    [
        ("failure_high<=10%", 0.05, [29, 46, 61]),
        ("new_failures_high<=5%", 0.05, [59, 93, 124]),
        ("failure_difference_high<=5%", 0.025, [72, 110, 142]),
    ],
)
def test_cases_needed_where_so_many_fail(text, tail, expected):
    subject = STRATA if text.startswith("failure_high") else COMPARISON
    requirement = parse_requirement(text, subject)

    assert [cases_needed(requirement, n_worse=n) for n in range(3)] == expected
    for n_failed, n in enumerate(expected):
        assert most_failures(n_failed, n, tail=tail) <= requirement.bound.value
        assert most_failures(n_failed, n - 1, tail=tail) > requirement.bound.value
        if subject is COMPARISON:
            before = [0.9] * n
            after = [0.1] * n_failed + [0.9] * (n - n_failed)
            (outcome,) = compare(two(before, after), requirements=[text]).outcomes
            assert outcome.passed


def test_the_chance_that_no_more_fail_than_may():
    _, rows = planned("new_failures_high<=5%", "--expect", "1%", "--n", 100)
    assert ["100", "1", f"{100 * stats.binom.cdf(1, 100, 0.01):.0f}"] in rows
    assert ["59", "0", f"{100 * 0.99**59:.0f}"] in rows


@pytest.mark.parametrize("n", [10, 40, 150])
def test_the_power_of_students_t_is_that_of_the_noncentral_one(n):
    requirement = parse_requirement("mean_difference_low_t>=-1pt", COMPARISON)
    chance = chance_to_meet(requirement, Expected(mean=0.0, spread=0.04), n)
    exact = stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, 0.01 / 0.04 * np.sqrt(n))
    assert chance == pytest.approx(exact, abs=0.08)


def test_chances_are_those_of_the_bounds_of_verdicts():
    # With equal differences there is no chance in it: the least number passes, one fewer does not.
    text = "mean_difference_low_guaranteed>=-5pt"
    requirement = parse_requirement(text, COMPARISON)
    n = cases_for_chance(requirement, Expected(0.01, 0.0), 0.9)
    for n_cases, is_met in ((n, True), (n - 1, False)):
        differences = two([0.5] * n_cases, [0.51] * n_cases)
        (outcome,) = compare(differences, requirements=[text]).outcomes
        assert outcome.passed is is_met

    typical = parse_requirement("typical_difference_low>=-1pt", COMPARISON)
    assert cases_for_chance(typical, Expected(0.0, 0.0), 0.9) == 6
    # What the sample cannot show is what costs: the typical difference needs the fewest cases.
    expected = Expected(0.016, 0.02)
    needed = [
        cases_for_chance(parse_requirement(f"{name}>=-1pt", COMPARISON), expected, 0.8)
        for name in (
            "typical_difference_low",
            "mean_difference_low_t",
            "mean_difference_low_guaranteed",
        )
    ]
    assert needed[0] <= 10
    assert needed[1] <= 10
    assert 150 < needed[2] < 190
    assert cases_for_chance(typical, Expected(-0.02, 0.02), 0.8) is None


def test_plan_shows_the_chance_of_each_bound():
    text, rows = planned(
        "typical_difference_low>=-1pt", "--expect", "1.6pt", "--spread", "2pt", "--n", 44
    )
    assert rows[-3][:2] == ["44", "100"]
    assert "Chances are those of normal values, to within 4 percentage points." in text

    text, rows = planned("mean_difference_low_guaranteed>=-1pt", "--with-label", 0.9)
    assert "All cases are taken to be alike: add --spread 3pt" in text
    assert ["477", "418", "100"] in rows
    assert (
        "takes more than 2,000 cases"
        in planned("typical_difference_low>=1pt", "--spread", "1pt", "--expect", "0pt")[0]
    )
