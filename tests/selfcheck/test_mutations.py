"""Whatever a verdict or a page rests on, a fault in it is seen by the self-check, and by its name.

Each fault is put into the code alone. A new number of a page or of a verdict needs a line here.
"""

import pytest

from nnunet_dro.evaluation.statistics import betting_bounds, intervals
from nnunet_dro.selfcheck.record import PARTS
from tests.selfcheck.mutating import Mutation, mutated, replaced

STATISTICS = "statistics.stratum_statistics"
INTERVALS = "statistics.intervals"
BETTING = "statistics.betting_bounds"
BOUNDS = "statistics.sample_bounds"
TESTS = "statistics.significance"
SAMPLES = "statistics.samples"
FAILURES = "scoring.failures"
SCORING = "scoring.scoring:Scoring"
SURFACES = "scoring.surfaces"
VERDICTS = "judging.verdicts"
TABLE = "comparing.comparison_table"
CHANGES = "comparing.changed_failures:ChangedFailures"
CUT = "stratifying.column_strata"

MUTATIONS = {
    "scores": [
        Mutation("Dice", f"{SCORING}.of_counts", "2 * n_inter", "n_inter", "dice of a cube"),
        Mutation("IoU", f"{SCORING}.of_counts", "(n_both - n_intersection)", "n_both", "iou of"),
        Mutation(
            "sensitivity",
            f"{SCORING}.of_counts",
            "ratio(n_intersection, n_reference)",
            "ratio(n_intersection, n_prediction)",
            "sensitivity of a cube and half",
        ),
        Mutation(
            "precision",
            f"{SCORING}.of_counts",
            "ratio(n_intersection, n_prediction)",
            "ratio(n_intersection, n_reference)",
            "precision of a cube and half",
        ),
        Mutation(
            "HD95, which percentile",
            f"{SURFACES}:DirectedDistances.p95",
            "0.95 *",
            "0.9 *",
            "hd95 of a cube and specks",
        ),
        Mutation(
            "HD95, interpolation",
            f"{SURFACES}:DirectedDistances.p95",
            "(high - low) * (position - rank)",
            "(high - low)",
            "hd95 of a cube and specks",
        ),
        Mutation(
            "HD95, of which direction",
            f"{SURFACES}:SurfaceDistances.hd95",
            "max(",
            "min(",
            "hd95 of a cube and specks",
        ),
        Mutation(
            "pooled HD95",
            f"{SURFACES}:SurfaceDistances.hd95_pooled",
            "95)",
            "98)",
            "hd95_pooled of a cube and specks",
        ),
        Mutation(
            "HD", f"{SURFACES}:SurfaceDistances.hd", "max(", "min(", "hd of a cube and specks"
        ),
        Mutation("ASSD", f"{SURFACES}:SurfaceDistances.assd", "mean()", "max()", "assd of"),
        Mutation(
            "NSD, the tolerance itself",
            f"{SURFACES}:DirectedDistances.n_within",
            "self.lengths <= tolerance_mm",
            "self.lengths < 0.99 * tolerance_mm",
            "nsd of a cube and shifted",
        ),
        Mutation(
            "NSD, of one border",
            f"{SURFACES}:SurfaceDistances.nsd",
            "directed.n for directed in self._both_ways",
            "directed.n + 1 for directed in self._both_ways",
            "nsd of",
        ),
        Mutation(
            "voxel size",
            "scoring.grid:Grid.spacing",
            "x, y, z = side_lengths",
            "z, y, x = side_lengths",
            "hd95 of a cube and shifted",
        ),
        Mutation("volume", "scoring.grid:Grid.voxel_ml", "/ 1000", "/ 100", "volume_error of"),
        Mutation(
            "sign of the volume error",
            f"{SCORING}.of_volumes",
            "n_prediction - n_reference",
            "n_reference - n_prediction",
            "volume_error of a cube and half",
        ),
        Mutation(
            "relative volume error",
            f"{SCORING}.of_volumes",
            "ratio(n_more, n_reference)",
            "ratio(n_more, n_prediction)",
            "relative_volume_error of a cube and half",
        ),
        Mutation(
            "false positive volume",
            f"{SCORING}.of_volumes",
            "math.nan if n_reference else error",
            "math.nan if n_reference else 0.0",
            "false_positive_volume",
        ),
        Mutation(
            "rule for an absent label",
            f"{SCORING}._of_nothing",
            "values[name] = math.nan",
            "values[name] = float(metric.more_is_better)",
            "dice of a label that is absent, --empty undefined",
        ),
        Mutation(
            "rule for a perfect absence",
            f"{SCORING}._of_nothing",
            "float(metric.more_is_better)",
            "0.0",
            "dice of a label that is absent, --empty one",
        ),
        Mutation(
            "distance of a missed label",
            f"{SCORING}._distance_to_nothing",
            "return BRATS_DISTANCE_MM",
            "return grid.diagonal_mm",
            "hd95 of a label that is missed, --empty brats",
        ),
        Mutation(
            "a missing prediction",
            f"{SCORING}.worst",
            "values[name] = distance",
            "values[name] = 0.0",
            "hd95 of a cube and a missing prediction",
        ),
        Mutation(
            "lesions, precision",
            "scoring.lesion_scores:_values",
            "ratio(n_predicted - n_invented, n_predicted)",
            "ratio(n_found, n_reference)",
            "lesion_precision of",
        ),
        Mutation(
            "lesions, F1",
            "scoring.lesion_scores:_values",
            "2 * precision * recall / (precision + recall)",
            "(precision + recall) / 2",
            "lesion_f1 of",
        ),
        Mutation(
            "lesions, panoptic quality",
            "scoring.lesion_scores:_values",
            "n_wrong / 2)",
            "n_wrong)",
            "pq of",
        ),
        Mutation(
            "lesions, Dice",
            "scoring.lesion_scores:_values",
            "math.fsum(match.dice for match in matches) / n_all",
            "math.fsum(match.dice for match in matches) / max(1, n_reference)",
            "lesion_dice of",
        ),
        Mutation(
            "diagonal",
            "scoring.grid:Grid.diagonal_mm",
            "np.array(self.shape) - 1",
            "np.array(self.shape)",
            "--empty diagonal",
        ),
    ],
    "statistics": [
        Mutation("mean", f"{STATISTICS}:describe", "defined.mean()", "np.median(defined)", "mean"),
        Mutation("standard deviation", f"{STATISTICS}:describe", "ddof=1", "ddof=0", "std of"),
        Mutation("IQR", f"{STATISTICS}:describe", '["p25"]', '["median"]', "iqr of"),
        Mutation(
            "percentiles, their place",
            f"{STATISTICS}:percentile",
            "percent / 100",
            "percent / 105",
            "p5 of",
        ),
        Mutation(
            "percentiles, interpolation",
            f"{STATISTICS}:percentile",
            "return low + (high - low) * share",
            "return low",
            "p5 of 0.2, 0.4, 0.6 and 1",
        ),
        Mutation(
            "undefined values",
            f"{STATISTICS}:describe",
            "values[~np.isnan(values)]",
            "np.nan_to_num(values)",
            "mean of 0.2, 0.6, 1 and an undefined value",
        ),
        Mutation(
            "exact lower bounds",
            f"{BOUNDS}:bound_ranks",
            "low = bisect_right(",
            "low = 1 + bisect_right(",
            "p5_low of",
        ),
        Mutation(
            "exact upper bounds",
            f"{BOUNDS}:bound_ranks",
            "range(n + 1), -most",
            "range(n + 1), -2 * most",
            "p75_high of",
        ),
        Mutation(
            "ranks of bounds",
            f"{BOUNDS}:percentile_bounds",
            "ascending[:, low - 1]",
            "ascending[:, low]",
            "median_low of",
        ),
        Mutation(
            "one-sided bounds, their confidence",
            f"{INTERVALS}:one_sided_bound",
            "1 - confidence / 100",
            "(1 - confidence / 100) / 2",
            "p5_low_95 of",
        ),
        Mutation(
            "one-sided bounds, their end",
            f"{INTERVALS}:one_sided_bound",
            'end == "low"',
            'end != "low"',
            "p75_high_95 of",
        ),
        Mutation(
            "interval of the IQR",
            f"{INTERVALS}:_percentile_bounds",
            'bounds["p25"][:, ::-1]',
            'bounds["p25"]',
            "iqr_low of",
        ),
        Mutation(
            "interval of the mean, its confidence",
            f"{INTERVALS}:_statistic_bounds",
            "mean_by_skewed_t(ascending, tail=TAIL)",
            "mean_by_skewed_t(ascending, tail=2 * TAIL)",
            "mean_low of 0, 0.01, ..., 1",
        ),
        Mutation(
            "interval of the mean, skewness",
            f"{BOUNDS}:_skewed_t",
            "skewness * (2 * z**2 + 1) / 6",
            "0 * skewness",
            "mean_low of nine values",
        ),
        Mutation(
            "interval of the mean, kurtosis",
            f"{BOUNDS}:_skewed_t",
            "kurtosis * (z**2 - 3) / 12",
            "0 * kurtosis",
            "mean_low of 0, 0.01, ..., 1",
        ),
        Mutation(
            "interval of the mean, limits",
            f"{INTERVALS}:clipped",
            "np.clip(bounds, low, 1.0) if bounded else bounds",
            "bounds",
            "mean_high of nine values",
        ),
        Mutation(
            "interval of too few values",
            f"{INTERVALS}:intervals",
            "fewest=FEWEST",
            "fewest=2",
            "mean_low of five values",
        ),
        Mutation(
            "bound of verdicts, the money",
            f"{BETTING}:_least_ratio",
            "math.log(1 / tail)",
            "math.log(0.5 / tail)",
            "mean_low_guaranteed of",
        ),
        Mutation(
            "bound of verdicts, the stakes",
            f"{BETTING}:_log_money",
            "1 - stakes * sizes",
            "1 - 0.9 * stakes * sizes",
            "mean_low_guaranteed of",
        ),
        Mutation(
            "bound of verdicts, the upper one",
            f"{BETTING}:bounded_mean",
            "high - span * _least_ratio((high - samples) / span",
            "high - 0.9 * span * _least_ratio((high - samples) / span",
            "mean_high_guaranteed of",
        ),
        Mutation(
            "bound of verdicts, inside the interval to read",
            f"{INTERVALS}:not_inside",
            "np.fmin(bounds[:, 0], to_read[:, 0])",
            "bounds[:, 0]",
            "less the interval to read",
        ),
        Mutation(
            "bound of verdicts, of distances",
            f"{INTERVALS}:guaranteed_means",
            "if is_bounded:",
            "if is_bounded or block.max() <= 1:",
            "of distances, which have no limit",
        ),
        Mutation(
            "failures, their bound",
            f"{FAILURES}:most_failures",
            "failed + 1, successes",
            "failed + 0.5, successes",
            "failure_high of 44 cases",
        ),
        Mutation(
            "failures, its confidence",
            f"{FAILURES}:most_failures",
            "1 - tail)",
            "1 - tail / 2)",
            "failure_high of 59 cases",
        ),
        Mutation(
            "failures, those without a value",
            f"{FAILURES}:Failure.of_cases",
            "np.where(lost, 1.0, np.nan)",
            "np.full(len(values), np.nan)",
            "n_failed of 44 cases",
        ),
        Mutation(
            "failures, cases that cannot fail",
            f"{FAILURES}:Failure.of_cases",
            "np.where(lost, 1.0, np.nan)",
            "np.where(lost, 1.0, 0.0)",
            "failure_high of 44 cases",
        ),
        Mutation(
            "failures, the condition",
            f"{FAILURES}:Failure.of_cases",
            "meets(values, self.comparison, self.bound)",
            "values <= self.bound",
            "n_failed of 44 cases",
        ),
        Mutation(
            "missed labels",
            f"{FAILURES}:failed_rows",
            "(n_reference > 0) & (n_prediction == 0)",
            "n_prediction == 0",
            "n_missed of",
        ),
        Mutation(
            "invented labels",
            f"{FAILURES}:failed_rows",
            "(n_reference == 0) & (n_prediction > 0)",
            "n_reference == 0",
            "n_invented of",
        ),
        Mutation(
            "labels left out",
            f"{FAILURES}:failed_rows",
            "left_out & (missed | invented)",
            "left_out & missed",
            "n_left_out of",
        ),
        Mutation(
            "strata, their edges",
            f"{CUT}:ranked",
            "bisect_right(starts, value) - 1",
            "max(0, bisect_right(starts, value - 1e-9) - 1)",
            "mean of age=",
        ),
        Mutation(
            "strata, their order",
            f"{CUT}:_in_order",
            "sorted((value, name)",
            "sorted((name, name)",
            "position of centre 10",
        ),
        Mutation(
            "strata, the cases of a row",
            f"{SAMPLES}:_groups",
            "codes[case_of_row]",
            "codes[case_of_row[::-1]]",
            "mean of",
        ),
        Mutation(
            "strata, the order of cases",
            "stratifying.stratify:divide",
            "stratum_of_case.reindex(pd.Index(cases))",
            "stratum_of_case",
            "mean of",
        ),
        Mutation(
            "worst stratum",
            "statistics.worst_strata:_worst_and_best",
            "np.nanargmin(others)",
            "np.nanargmax(others)",
            "of the worst age",
        ),
        Mutation(
            "gap",
            "statistics.worst_strata:_worst_and_best",
            "goodness[best] - goodness[worst]",
            "goodness[best]",
            "gap of",
        ),
        Mutation(
            "bounds of the gap",
            "statistics.worst_strata:_gap_bounds",
            "bounds[best] - bounds[worst][::-1]",
            "bounds[best] - bounds[worst]",
            "gap_low of",
        ),
        Mutation(
            "direction of a metric",
            "scoring.metrics:Metric.goodness",
            "-abs(values)",
            "abs(values)",
            "mean hd95 of the worst age",
        ),
        Mutation(
            "patients",
            "statistics.patients:patient_values",
            "weights=defined",
            "weights=None",
            "mean of patients",
        ),
        Mutation(
            "the worst of a patient",
            "statistics.patients:patient_values",
            "if worst_by is None:",
            "if True:",
            "mean of the worst of patients",
        ),
    ],
    "differences": [
        Mutation(
            "differences, their sign",
            "comparing.trainings:_numbers",
            "after.mean(axis=0) - before.mean(axis=0)",
            "before.mean(axis=0) - after.mean(axis=0)",
            "mean_difference of dice, 6 cases",
        ),
        Mutation(
            "interval of differences, its confidence",
            f"{INTERVALS}:difference_intervals",
            "mean_by_students_t(changes, tail=TAIL)",
            "mean_by_students_t(changes, tail=2 * TAIL)",
            "mean_difference_low of dice, 6 cases",
        ),
        Mutation(
            "interval of differences, degrees of freedom",
            f"{BOUNDS}:mean_by_students_t",
            "stdtrit(n - 1",
            "stdtrit(n",
            "mean_difference_low of dice, 6 cases",
        ),
        Mutation(
            "interval of differences, pairing",
            f"{INTERVALS}:difference_intervals",
            "np.sort(second - first, axis=1)",
            "np.sort(second, axis=1) - np.sort(first, axis=1)[:, ::-1]",
            "mean_difference_low of dice, 6 cases",
        ),
        Mutation(
            "interval of differences, percentiles",
            f"{INTERVALS}:difference_intervals",
            "bounds_before[:, ::-1]",
            "bounds_before",
            "median_difference_low of",
        ),
        Mutation(
            "bound of differences, the limits",
            "comparing.trainings:differences_over_trainings",
            "bounded=bounded,\n        low=-1.0",
            "bounded=bounded,\n        low=-0.99",
            "mean_difference_low_guaranteed of dice, 6 cases",
        ),
        Mutation(
            "interval of trainings, its width",
            "comparing.trainings:_half_width",
            "(after - before).var(axis=0, ddof=1) / n_after",
            "(after - before).var(axis=0, ddof=0) / n_after",
            "mean_difference_low of three trainings",
        ),
        Mutation(
            "interval of trainings, the cases",
            "comparing.trainings:_wider",
            "np.hypot(ends - estimate, half)",
            "(np.abs(ends - estimate) + 2 * half)",
            "mean_difference_high of three trainings",
        ),
        Mutation(
            "typical difference",
            f"{TESTS}:typical_value",
            "(lower + upper) / 2",
            "lower",
            "typical value of 1, 2 and 4",
        ),
        Mutation(
            "bound of the typical difference",
            f"{TESTS}:_signed_rank_place",
            "<= 0.025",
            "<= 0.05",
            "typical_difference_low of",
        ),
        Mutation(
            "Wilcoxon's test",
            f"{TESTS}:_exact_wilcoxon_p",
            "2 * min(",
            "min(",
            "Wilcoxon's p of",
        ),
        Mutation(
            "Holm's correction",
            f"{TESTS}:holm",
            "np.arange(len(order), 0, -1)",
            "np.full(len(order), len(order))",
            "corrected by Holm",
        ),
        Mutation(
            "Holm's correction in the table",
            f"{TABLE}:table_of_differences",
            "holm(column.to_numpy(dtype=np.float64))",
            "column",
            "holm_p of hd95",
        ),
        Mutation(
            "McNemar's test",
            f"{TESTS}:mcnemar_p",
            "min(n_new, n_recovered)",
            "max(n_new, n_recovered)",
            "mcnemar_p of",
        ),
        Mutation(
            "new failures",
            f"{CHANGES}.is_new",
            "self.after[0] & ~self.before[0]",
            "self.before[0] & ~self.after[0]",
            "new_failures of dice, 44 cases",
        ),
        Mutation(
            "recoveries",
            f"{CHANGES}.is_recovered",
            "self.before[0] & ~self.after[0]",
            "self.after[0]",
            "recoveries of dice, 44 cases",
        ),
        Mutation(
            "bound of new failures",
            f"{CHANGES}.counts",
            "most_failures(n_new, len(self.names))",
            "most_failures(n_new, len(self.names) + 1)",
            "new_failures_high of",
        ),
        Mutation(
            "bound of the difference of failures",
            f"{FAILURES}:most_failures_added",
            "added - recovered",
            "added",
            "failure_difference_high of",
        ),
        Mutation(
            "wins and losses",
            f"{TABLE}:_wins",
            'METRICS[pair.key["metric"]].sign * differences',
            "differences",
            "wins of hd95, 6 cases",
        ),
        Mutation(
            "a label that one method missed",
            "comparing.one_sided:completed",
            "np.where(is_worst, worst, method.values)",
            "method.values",
            "mean_difference of hd95, 1 cases",
        ),
        Mutation(
            "the largest distance",
            "comparing.one_sided:worst_values",
            "np.fmax.reduce(np.abs(every)",
            "np.fmin.reduce(np.abs(every)",
            "mean_difference of hd95, 1 cases",
        ),
    ],
    "verdicts": [
        Mutation(
            "direction of a requirement",
            "judging.requirements:Requirement.holds_for",
            "meets(value, self.comparison,",
            'meets(value, "<=" if ">" in self.comparison else ">=",',
            "verdict on median",
        ),
        Mutation(
            "end of a bound",
            "judging.requirements:Requirement.end",
            '"low" if self.comparison.startswith(">") else "high"',
            '"high" if self.comparison.startswith(">") else "low"',
            "verdict on p5>=0.02@95",
        ),
        Mutation(
            "whether it is met, in files",
            "judging.outcomes:Outcome.passed",
            "self.verdict.word == MET",
            "True",
            "verdict on median>0.5",
        ),
        Mutation(
            "percent in a bound",
            "judging.bounds:parse_bound",
            "value = float(",
            "value = 0.98 * float(",
            "verdict on p75>=76%",
        ),
        Mutation(
            "a bound of verdicts, its column",
            "judging.subjects:column_of",
            "statistic.removesuffix(BY_T)\n    return statistic",
            "statistic.removesuffix(BY_T)\n    return statistic.removesuffix(GUARANTEED)",
            "verdict on mean_low_guaranteed>=0.406",
        ),
        Mutation(
            "not met and cannot tell",
            f"{VERDICTS}:verdict_of",
            "or bool(math.isnan(value) and doubts)",
            "",
            "verdict on p5>=0.7@95 of 58 values",
        ),
        Mutation(
            "doubts", f"{VERDICTS}:verdict_of", "if doubts:", "if False:", "of 58 values of 1"
        ),
        Mutation(
            "doubts about a tail",
            f"{VERDICTS}:_doubts_about_tail",
            "not enough_cases(statistic, units.n)",
            "False",
            "verdict on p5>=0.7 of 19 values",
        ),
        Mutation(
            "doubts about references without a prediction",
            f"{VERDICTS}:_doubts",
            'whole(row, "n_absent")',
            "0",
            "of 20 of 21 cases",
        ),
        Mutation(
            "cases that are needed",
            f"{VERDICTS}:_sides",
            '">=", least)',
            '"<=", least)',
            "verdict on p5>=0.7 n>=20",
        ),
        Mutation(
            "failures that are left out",
            f"{VERDICTS}:_misses",
            "if n_failed and kind not in allowed:",
            "if False:",
            "verdict on metric=hd95 p75<=4mm of",
        ),
        Mutation(
            "an estimate behind its bound",
            f"{VERDICTS}:_misses",
            "requirement.column and not is_share(requirement.statistic)",
            "requirement.column",
            "verdict on group=many metric=dice new_failures_high<=27.9%",
        ),
        Mutation(
            "the margin, its verdict",
            f"{VERDICTS}:margin_verdicts",
            "least >= -allowed_loss",
            "most >= -allowed_loss",
            "verdict on a margin of 1",
        ),
        Mutation(
            "the margin, its unit",
            f"{VERDICTS}:margin_verdicts",
            "margin / 100",
            "margin / 10",
            "verdict on a margin of 1, dice -0.011",
        ),
        Mutation(
            "the margin, the direction of distances",
            f"{VERDICTS}:margin_verdicts",
            "np.where(more_is_better, low, -high)",
            "low",
            "verdict on a margin of 1, hd95",
        ),
        Mutation(
            "the margin, worse",
            f"{VERDICTS}:margin_verdicts",
            "most < 0",
            "least < 0",
            "verdict on a margin of 1",
        ),
        Mutation(
            "the margin, its bounds",
            f"{VERDICTS}:margin_verdicts",
            'MARGIN_BOUNDS[bound or "guaranteed"]',
            'MARGIN_BOUNDS["guaranteed"]',
            "bound typical",
        ),
    ],
}

#: Constants: name, module, value, and what has to be wrong then.
CONSTANTS = [
    ("TAIL", intervals, 0.05, "mean_low_guaranteed of"),
    ("FEWEST", intervals, 5, "mean_low of five values"),
    ("STAKES", betting_bounds, 0.99 * betting_bounds.STAKES, "mean_low_guaranteed of"),
    ("SHARES", betting_bounds, betting_bounds.SHARES[::-1].copy(), "mean_low_guaranteed of"),
]

#: The faults that are put into the code in the quick tests, too: one of each kind.
QUICK = (
    "Dice",
    "NSD, the tolerance itself",
    "percentiles, their place",
    "interval of the mean, its confidence",
    "bound of verdicts, the money",
    "failures, their bound",
    "strata, their edges",
    "interval of differences, its confidence",
    "McNemar's test",
    "direction of a requirement",
    "the margin, its verdict",
)

ALL = []
for group, mutations in MUTATIONS.items():
    for entry in mutations:
        marks = () if entry.name in QUICK else pytest.mark.slow
        ALL.append(pytest.param(group, entry, marks=marks, id=entry.name))


def wrong_numbers(part):
    """The names of the numbers of a part that are not as expected, each as soon as it is known."""
    (compute,) = [function for function in PARTS if function.__name__ == part]
    return (number.name for number in compute() if not number.agrees)


@pytest.mark.parametrize(("part", "mutation"), ALL)
def test_a_fault_is_caught_by_its_name(part, mutation):
    with mutated(mutation):
        # The numbers after the wrong one need not be computed.
        assert any(mutation.caught_by in name for name in wrong_numbers(part)), list(
            wrong_numbers(part)
        )


@pytest.mark.parametrize(
    ("name", "module", "value", "caught_by"), CONSTANTS, ids=[entry[0] for entry in CONSTANTS]
)
def test_another_constant_is_caught_by_its_name(name, module, value, caught_by):
    with replaced(module, name, getattr(module, name), value):
        assert any(caught_by in name for name in wrong_numbers("statistics")), list(
            wrong_numbers("statistics")
        )


@pytest.mark.parametrize("part", MUTATIONS)
def test_without_a_fault_every_number_is_as_expected(part):
    assert list(wrong_numbers(part)) == []
