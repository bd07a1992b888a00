"""Requirements on the differences of methods."""

import re
from dataclasses import replace

import numpy as np
import pytest

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.report import comparison_html, comparison_markdown
from nnunet_dro.evaluation.report.requirement_sentences import requirement_sentences
from tests.commands import done, run
from tests.evaluation.comparing.test_comparison import evaluation
from tests.evaluation.made_folders import (
    evaluate_both,
    names_in,
    run_evaluate,
    summary_of,
    write_study,
)

RARE_GAINS = "pathology=rare mean_difference_low_guaranteed>=0"
NONE_LOSES = "pathology=* mean_difference_low_guaranteed>=-8pt"


def required(*texts, gain=0.08, loss=0.0, **options):
    """A comparison in which 60 rare cases gain about so much, and 60 common ones lose."""
    rng = np.random.default_rng(0)
    before = np.r_[rng.uniform(0.3, 0.6, 60), rng.uniform(0.7, 0.9, 60)]
    after = before + np.r_[rng.normal(gain, 0.02, 60), rng.normal(-loss, 0.01, 60)]
    by = {"pathology": ["rare"] * 60 + ["common"] * 60}
    evaluations = {
        name: evaluation(values, by=by) for name, values in (("ERM", before), ("DRO", after))
    }
    return compare(evaluations, requirements=texts, **{"n_resamples": 100, **options})


def test_the_claim_of_rare_gains_and_common_losses_is_one_sentence():
    comparison = required(RARE_GAINS, NONE_LOSES)
    (same,) = required("pathology=rare mean_difference>=0@97.5").outcomes

    assert [outcome.passed for outcome in comparison.outcomes] == [True, True, True]
    assert comparison.outcomes[0].value == same.value

    (sentence,) = requirement_sentences(comparison, "DRO")
    row = comparison.table.set_index("stratum").loc["rare"]
    low, high = (100 * row[f"mean_difference_{end}_guaranteed"] for end in ("low", "high"))

    # The bounds that decide are shown, not those to read.
    assert low < 100 * row["mean_difference_low"] - 1

    gain = f"rare +{100 * row['mean_difference']:.1f} (surely from +{low:.1f} to +{high:.1f})"
    assert sentence == f"As required: {gain}, common not worse by more than 8 points."
    assert sentence in comparison_html(comparison)

    line = r"- Requirement met: method=DRO pathology=rare label=one: mean\_difference\_low\_guaranteed 0.0"
    assert line in comparison_markdown(comparison)


def test_a_spread_that_has_to_shrink_is_no_loss_that_is_allowed():
    (sentence,) = requirement_sentences(
        required("pathology=rare iqr_difference<=0.1pt n>=12"), "DRO"
    )
    assert sentence == "As required: IQR in rare not worse by more than 0.1 points in these cases."

    (sentence,) = requirement_sentences(
        required("pathology=rare iqr_difference<=-0pt n>=12"), "DRO"
    )
    assert "worse" not in sentence


# The better end of the interval, and a loss that is asked for, exclude no loss.
@pytest.mark.parametrize(
    "requirement", ["mean_difference_high_t>=-5pt", "typical_difference<=-1pt"]
)
def test_only_what_limits_a_loss_says_that_no_more_is_lost(requirement):
    (sentence,) = requirement_sentences(
        required(f"pathology=common {requirement}", loss=0.04), "DRO"
    )
    assert sentence.startswith("As required: ")
    assert "common −4." in sentence
    assert "not worse" not in sentence


def test_a_bound_of_the_loss_is_not_confused_with_the_loss_of_these_cases():
    requirements = ("mean_difference_low_t>=-8pt", "mean_difference>=-6pt")
    texts = [f"pathology=common {requirement}" for requirement in requirements]
    (sentence,) = requirement_sentences(required(*texts, loss=0.04), "DRO")
    assert sentence == (
        "As required: common not worse by more than 8 points, "
        "common not worse by more than 6 points in these cases."
    )


def test_an_unmet_requirement_is_in_a_sentence_of_its_own():
    comparison = required(NONE_LOSES, loss=0.05)
    assert [outcome.passed for outcome in comparison.outcomes] == [True, False]

    met, unmet = requirement_sentences(comparison, "DRO")
    assert met == "As required: rare not worse by more than 8 points."
    assert unmet.startswith("Not as required: common −5.")
    assert "✗ not met" in comparison_html(comparison)


def test_sentences_name_some_strata_and_count_the_others():
    before = np.linspace(0.5, 0.9, 120)
    by = {"site": [f"s{n % 10}" for n in range(120)]}
    evaluations = {
        name: evaluation(before - loss, by=by) for name, loss in (("ERM", 0), ("DRO", 0.1))
    }
    for requirement, word in (
        ("site=* mean_difference>=0", "Not as"),
        ("site=* mean_difference>=-20pt", "As"),
    ):
        (sentence,) = requirement_sentences(
            compare(evaluations, requirements=[requirement], n_resamples=0), "DRO"
        )
        assert sentence.startswith(f"{word} required: s0")
        assert len(re.findall(r"\bs\d\b", sentence)) == 5
        assert "and 5 others (report.html has all, under Requirements)" in sentence


def test_distances_have_to_fall():
    values = np.linspace(0.5, 0.9, 60)
    distances = {"ERM": values * 10, "DRO": values * 10 - 4}
    evaluations = {name: evaluation(values, hd95=hd95) for name, hd95 in distances.items()}

    sure, unsure, missed = (
        compare(evaluations, requirements=[f"metric=hd95 {text}"], n_resamples=50)
        for text in (
            "p75_difference<=-1mm@95",
            "mean_difference<=-1@97.5",
            "mean_difference<=-5@97.5",
        )
    )

    assert "metric=hd95: p75_difference's upper 95 % bound -3." in sure.outcomes[0].line

    (sentence,) = requirement_sentences(sure, "DRO")
    assert sentence.startswith("As required: P75 HD95 in all cases −4.0 [")
    # A distance has no limit: one case in a thousand may decide on the mean.
    assert unsure.outcomes[0].verdict.word == "cannot tell"
    assert unsure.outcomes[0].line.endswith("typical_difference_high<=1, or new_failures_high<=5%")
    assert missed.outcomes[0].verdict.word == "not met"
    assert missed.outcomes[0].line.endswith("mean_difference itself is -4.000 mm")


def test_cases_that_are_not_compared_leave_it_open():
    few = evaluation([0.9] * 10)
    short = replace(
        few, about=few.about | {"inputs": {"references_without_prediction": ["c10", "c11"]}}
    )
    for n, method, n_absent in ((30, few, 20), (10, short, 2)):
        evaluations = {"ERM": evaluation([0.8] * n), "DRO": method}
        texts = (
            "mean_difference>=0pt",
            "mean_difference>=0pt n>=10",
            "n>=10",
            "mean_difference>=20pt",
        )

        outcomes = compare(evaluations, requirements=texts, intersect=True, n_resamples=0).outcomes

        assert [outcome.verdict.word for outcome in outcomes] == [
            "cannot tell",
            "met",
            "met",
            "not met",
        ]
        rest = f"(10 cases); {n_absent} more cases are not in every evaluation; if 10 are enough, add n>=10"
        assert outcomes[0].line.endswith(rest)


def test_pairs_that_both_methods_fail_leave_it_open():
    missed = evaluation([0.9] * 20 + [0.0] * 10, hd95=[2.0] * 20 + [np.nan] * 10)
    missed.scores["n_prediction"] = [10] * 20 + [0] * 10
    texts = ("p75_method<=5mm", "p75_method<=5mm n>=20", "p75_method<=1mm", "losses<=0")
    requirements = [f"metric=hd95 {text}" for text in texts]

    outcomes = compare(
        {"ERM": missed, "DRO": missed}, requirements=requirements, n_resamples=0
    ).outcomes

    assert [outcome.verdict.word for outcome in outcomes] == [
        "cannot tell",
        "met",
        "not met",
        "met",
    ]

    rest = "(20 of 30 cases with a value); it leaves out 10 cases in which the label was missed or invented; if 20 are"
    assert outcomes[0].line.endswith(f"{rest} enough, add n>=20")


@pytest.mark.parametrize("test", ["wilcoxon_p", "holm_p"])
def test_a_p_value_is_no_per_cent(test):
    with pytest.raises(
        ValueError, match=rf"compare {test} with a fraction from 0 to 1, .* Write 5% or 0\.05\.$"
    ):
        required(f"{test}<=5")
    assert {o.value < 0.05 for o in required(f"pathology=rare {test}<=5%").outcomes} == {True}


def test_several_trainings_have_no_p_value_to_require():
    seeds = [evaluation([0.5, 0.6, 0.7]), evaluation([0.6, 0.7, 0.8])]
    (outcome,) = compare(
        {"ERM": seeds, "DRO": seeds}, requirements="holm_p<=0.05", n_resamples=0
    ).outcomes

    assert outcome.verdict.word == "cannot tell"
    assert outcome.line.endswith("; there is none where a method has several trainings")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean_difference_low_guaranteed>=0", "so do not switch them off"),
        (
            "mean>=0",
            "statistic of comparison.csv, not 'mean', got 'mean>=0'. Choose from: n, n_patients, n_undef",
        ),
        ("mean_difference>=0@95", "holds with that: write @97.5."),
        # The bounds of two percentiles may be wrong in different samples, and so may those of four.
        ("p5_difference>=0@97.5", "write @95."),
        ("iqr_difference<=0@97.5", "write @90."),
        ("p5_method>=0.7@95", "ask for confidence in a percentile, not in 'p5_method'"),
        ("n_missed<=2 mean_difference>=0", "allow no missed or invented labels in a comparison"),
        (
            "mean_difference_low_guaranteed>=-1.5",
            r"from -1 to 1.* Write -1\.5pt for 1\.5 percentage points\.$",
        ),
        (
            "mean_difference>=-0.5",
            r"a unit if it allows a loss.* Write -0\.5pt for 0\.5 percentage points, or -50pt\.",
        ),
        (
            "mean_difference_low_guaranteed>=-0.1",
            r"Write -0\.1pt for 0\.1 percentage points, or -10pt\.",
        ),
        ("mean_difference>=-0.09", r"Write -0\.09pt for 0\.09 percentage points, or -9pt\."),
        ("std_difference<=0@97.5", "about a bound that exists, not 'std_difference_low'"),
        ("iqr_difference<=0.3", r"Write 0\.3pt for 0\.3 percentage points, or 30pt\."),
        ("mean_difference>=-0.5mm", "compare dice with a fraction"),
        ("wins>=50%", "compare wins with a plain number"),
        ("holm_p<=5pt", "compare holm_p with a plain number"),
        ("method=ARM mean_difference>=0", "name a reported method, not 'ARM'"),
        ("pathology=odd mean_difference>=0", "name a reported stratum, not 'odd'"),
        ("n_trainings_method>=3", "It needs several trainings of a method"),
    ],
)
def test_what_cannot_be_checked_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        required(text, n_resamples=0 if "switch" in message else 100)


def test_no_difference_of_half_a_point_is_half_of_everything():
    # Common cases fall by 44 points: as a fraction, -0.5 would allow it.
    (outcome,) = required("pathology=common mean_difference>=-0.5pt", loss=0.44).outcomes
    assert outcome.verdict.word == "not met"
    assert re.search(r"mean_difference -4[34]\.\dpt is not >= -0\.5pt \(60 cases\)$", outcome.line)

    small = required(
        "pathology=* mean_difference>=-0.5pt", "pathology=* mean_difference>=-0.5%", loss=0.001
    )
    assert [outcome.passed for outcome in small.outcomes] == [True] * 4

    asked = required("pathology=rare mean_difference>=0.3", "pathology=rare mean_difference>=-50pt")
    assert [outcome.passed for outcome in asked.outcomes] == [False, True]

    (sentence,) = requirement_sentences(required("pathology=common mean_difference>=-1pt"), "DRO")
    assert sentence == "As required: common not worse by more than 1 point in these cases."


def test_a_percentile_of_few_pairs_cannot_tell():
    before = np.linspace(0.5, 0.6, 8)
    evaluations = {"ERM": evaluation(before), "DRO": evaluation(before + 0.1)}
    texts = ("p5_method>=0.5", "p5_difference>=0", "p5_difference>=0 n>=8")

    comparison = compare(evaluations, requirements=texts, n_resamples=50)

    assert [outcome.verdict.word for outcome in comparison.outcomes] == [
        "cannot tell",
        "cannot tell",
        "met",
    ]
    assert "? cannot tell" in comparison_html(comparison)
    assert "- Requirement **cannot tell**: method=DRO" in comparison_markdown(comparison)

    (sentence,) = requirement_sentences(
        compare(evaluations, requirements=texts[1], n_resamples=50), "DRO"
    )
    assert sentence.startswith("Cannot tell if as required: P5 in all cases +10.0")


def test_other_numbers_can_be_required():
    comparison = required(
        "pathology=rare wins>=50", "pathology=rare p5_method>=0.3", "pathology=rare holm_p<=0.05"
    )
    assert [outcome.passed for outcome in comparison.outcomes] == [True] * 3
    assert (
        comparison.outcomes[0].line
        == "method=DRO pathology=rare label=one: wins 60 is >= 50 (60 cases)"
    )
    assert list(requirement_sentences(comparison, "DRO")) == []


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """ERM is off by two voxels in the rare cases, DRO by one; common ones are right."""
    root = write_study(tmp_path_factory.mktemp("required"), shifts=[2] * 6 + [0] * 6)
    return evaluate_both(
        root, [1] * 6, "--by", "pathology", pathology=["rare"] * 6 + ["common"] * 6
    )


def test_exit_code_is_3_after_writing(compared, tmp_path):
    (tmp_path / "claims.txt").write_text(
        "pathology=rare label=tumour mean_difference>=0.3 # too much\n"
    )
    met = (
        "compare",
        *compared,
        "--bootstrap",
        100,
        "--require",
        "label=tumour pathology=* mean_difference>=0",
    )

    done(run(*met, "-o", tmp_path / "met"))
    result = done(run(*met, "-o", tmp_path / "out", "--require-file", tmp_path / "claims.txt"), 3)

    line = "method=DRO pathology=rare label=tumour: mean_difference 0.250 is not >= 0.3 (6 cases)"

    assert result.stderr.splitlines() == [f"nnunet-dro: requirement not met: {line}"]
    assert "report.html" in names_in(tmp_path / "out")

    outcomes = summary_of(tmp_path / "out")["about"]["requirements"]
    assert [outcome["passed"] for outcome in outcomes] == [True, True, False]


def test_a_stratum_without_any_compared_case_is_named_and_fails(tmp_path):
    write_study(tmp_path, shifts=(0, 1), centre=["A", "B", "C"])
    run_evaluate(tmp_path, "--by", "centre")
    twice = (
        f"A={tmp_path / 'out'}",
        f"B={tmp_path / 'out'}",
        "-o",
        tmp_path / "both",
        "--bootstrap",
        0,
    )

    (line,) = done(
        run("compare", *twice, "--require", "centre=* label=tumour ties>=1 n>=1"), 3
    ).stderr.splitlines()

    assert "not met: method=B centre=C label=tumour" in line
    assert line.endswith("n 0 is not >= 1; none of its cases in the case table was evaluated")
    assert "No case of centre C is compared." in summary_of(tmp_path / "both")["notes"]
