"""Tables of MIST and panoptica in comparisons and rankings, in the formats that their sources
write."""

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.evaluating.other_tables import read_scores
from nnunet_dro.evaluation.report import evaluation_reports
from tests.commands import done, run
from tests.evaluation.made_folders import check_refused, read_csv, run_evaluate, summary_of


def write_mist(path, dice, **attributes):
    """As mist.evaluation writes it: a column per class and metric, and five rows of statistics
    below the cases."""
    table = pd.DataFrame({"id": [f"case_{n:02}" for n in range(len(dice))], "tumour_dice": dice})
    table["tumour_haus95"] = [4.0 * (1 - value) for value in dice]
    table["whole_organ_dice"] = 1.0
    names = ["Mean", "Std", "25th Percentile", "Median", "75th Percentile"]
    below = pd.DataFrame({"id": names} | dict.fromkeys(table.columns[1:], 0.5))
    pd.concat([table.assign(**attributes), below]).to_csv(path, index=False)
    return path


#: Two cases with an instance of the first between them, as panoptica's aggregator writes them.
PANOPTICA = (
    "subject_name\ttumour-num_ref_instances\ttumour-num_pred_instances\ttumour-tp\ttumour-fp\ttumour-fn\ttumour-prec\t"
    "tumour-rec\ttumour-rq\ttumour-sq\ttumour-sq_std\ttumour-pq\ttumour-global_bin_dsc\ttumour-global_bin_assd\t"
    "tumour-global_bin_volume_ref\ttumour-global_bin_volume_pred\ttumour-computation_time\n"
    "case_00\t1\t1\t1\t0\t0\t1.0\t1.0\t1.0\t0.75\t0.0\t0.75\t0.9\t0.84\t40\t44\t0.1\n"
    "case_00-tumour_inst_0\t\t\t\t\t\t\t\t\t0.75\t\t\t\t\t\t\t\n"
    "case_01\t2\t0\t0\t0\t2\t0.0\t0.0\t0.0\t0.0\t\t0.0\t0.0\tinf\t40\t0\t0.1\n"
)


def test_tables_of_mist_are_compared_by_their_own_columns(tmp_path):
    erm = write_mist(tmp_path / "erm.csv", [0.5, 0.7, 0.9, 1.0], site=list("AABB"))
    dro = write_mist(tmp_path / "dro.csv", [0.6, 0.8, 0.9, 0.9], site=list("AABB"))

    done(
        run(
            "compare",
            f"ERM={erm}",
            f"DRO={dro}",
            "-o",
            tmp_path / "out",
            "--by",
            "site",
            "--bootstrap",
            0,
        )
    )

    table = read_csv(tmp_path / "out" / "comparison.csv").set_index(["stratum", "label", "metric"])

    assert table.loc[("A", "tumour", "dice"), "mean_difference"] == pytest.approx(0.1)
    assert table.loc[("B", "tumour", "hd95_surface_mist"), "mean_difference"] == pytest.approx(0.2)
    assert table.loc[("B", "whole_organ", "dice"), "n"] == 2
    assert summary_of(tmp_path / "out")["about"]["definitions"]["dice"] == "as MIST defines it"
    assert any(
        "MIST's, by its own definitions" in note for note in summary_of(tmp_path / "out")["notes"]
    )
    assert (
        run("rank", f"a={erm}", f"b={dro}", "-o", tmp_path / "rank", "--bootstrap", 20).exit_code
        == 0
    )


@pytest.mark.parametrize("name", ["a.tsv", "a.TSV", "a.csv"])
def test_a_table_of_panoptica_has_lesions_and_failures(tmp_path, name):
    (tmp_path / name).write_text(PANOPTICA)

    evaluation = read_scores(tmp_path / name)

    rows = evaluation.scores.set_index("case")

    assert list(rows.index) == ["case_00", "case_01"]
    assert evaluation.metrics == (
        "dice",
        "lesion_recall",
        "lesion_precision",
        "pq",
        "sq",
        "rq",
        "assd_directed_panoptica",
    )
    assert rows.loc[
        "case_00", ["dice", "pq", "assd_directed_panoptica", "lesions_found"]
    ].tolist() == [
        0.9,
        0.75,
        0.84,
        1,
    ]
    assert np.isnan(rows.loc["case_01", "assd_directed_panoptica"])

    is_assd = evaluation.strata["metric"] == "assd_directed_panoptica"
    (assd,) = evaluation.strata[is_assd].to_dict("records")
    assert (assd["n"], assd["n_missed"], assd["n_left_out"], assd["mean"]) == (2, 1, 1, 0.84)


def test_evaluations_of_other_tables_are_shown(tmp_path):
    mist = write_mist(tmp_path / "mist.csv", [0.5, 0.7])
    panoptica = tmp_path / "panoptica.tsv"
    panoptica.write_text(PANOPTICA)
    for path in (mist, panoptica):
        page = evaluation_reports(read_scores(path))["report.html"]
        assert "Dice" in str(page)
        assert "False positives per label" not in str(page)


def test_panoptica_2_has_other_names_of_the_counts(tmp_path):
    # 2.1.7 writes n_ref_instances where 1.5.1 writes num_ref_instances.
    (tmp_path / "a.tsv").write_text(PANOPTICA)
    (tmp_path / "b.tsv").write_text(PANOPTICA.replace("-num_", "-n_"))

    first, second = (read_scores(tmp_path / name) for name in ("a.tsv", "b.tsv"))

    pd.testing.assert_frame_equal(first.scores, second.scores)
    assert first.metrics == second.metrics


def test_metrics_on_lesions_without_their_numbers_are_named(tmp_path):
    (tmp_path / "a.tsv").write_text(PANOPTICA.replace("num_ref_instances", "references"))

    evaluation = read_scores(tmp_path / "a.tsv")

    assert evaluation.metrics == ("dice", "assd_directed_panoptica")
    assert "metrics are left out: lesion_precision, lesion_recall, rq, sq, pq." in " ".join(
        evaluation.notes
    )


#: Names that pandas takes for missing values, and names of rows that are no cases elsewhere.
AWKWARD = ["007", "NA", "null", "None", "nan", "N/A", "pat-1_inst_2", "pat-3", "Median", "1.0"]


@pytest.mark.parametrize(
    ("name", "head", "separator"),
    [
        ("a.tsv", "subject_name\ttumour-global_bin_dsc\tcentre", "\t"),
        ("a.csv", "id,tumour_dice,centre", ","),
    ],
)
def test_no_case_and_no_stratum_is_taken_for_missing(tmp_path, name, head, separator):
    centres = ["A", "None", "null", "NA", ""] * 2
    rows = [
        separator.join((case, f"{0.5 + n / 100}", centre))
        for n, (case, centre) in enumerate(zip(AWKWARD, centres, strict=True))
    ]
    (tmp_path / name).write_text("\n".join([head, *rows]) + "\n")

    scores = read_scores(tmp_path / name).scores

    assert scores["case"].tolist() == AWKWARD
    assert scores["dice"].tolist() == [0.5 + n / 100 for n in range(10)]
    # As in a case table, NA is an unknown entry, and None is not.
    assert scores["centre"].tolist()[:5] == ["A", "None", "null", "missing", "missing"]


def test_notes_name_what_of_a_table_is_not_read(tmp_path):
    # As MIST 2.3.0 writes it; its lesion_wise_dice is no Dice of a label "WT_lesion_wise".
    table = write_mist(tmp_path / "a.csv", [0.5, 0.7])
    frame = pd.read_csv(table)
    frame.assign(tumour_lesion_wise_dice=0.1, tumour_lesion_wise_f1=0.2, age=60).to_csv(
        table, index=False
    )

    evaluation = read_scores(table)

    assert set(evaluation.scores["label"]) == {"tumour", "whole_organ"}
    assert evaluation.notes[1:] == (
        "Columns of the table that are not read: lesion_wise_dice, lesion_wise_f1, age.",
        "Left out as statistics or instances: 5 rows (Mean, Std, 25th Percentile, Median, "
        "75th Percentile).",
    )

    (tmp_path / "a.tsv").write_text(PANOPTICA)
    assert read_scores(tmp_path / "a.tsv").notes[1:] == (
        "panoptica's distances are in mm only if it was told the voxel size (voxelspacing).",
        "Columns of the table that are not read: fn, sq_std, computation_time.",
        "Left out as statistics or instances: 1 row (case_00-tumour_inst_0).",
    )


def test_other_definitions_are_not_compared(study):
    done(run_evaluate(study, "--metrics", "dice,hd95,nsd,assd"))
    cases = sorted(set(read_csv(study / "out" / "scores.csv")["case"]))
    labels = list(dict.fromkeys(read_csv(study / "out" / "scores.csv")["label"]))
    metrics = {"dice": 0.9, "haus95": 1.0, "surf_dice": 0.9, "avg_surf": 1.0}
    columns = {f"{label}_{name}": value for label in labels for name, value in metrics.items()}
    pd.DataFrame({"id": cases}).assign(**columns).to_csv(study / "mist.csv", index=False)

    both = (f"ours={study / 'out'}", f"mist={study / 'mist.csv'}", "-o", study / "both")
    done(run("compare", *both, "--bootstrap", 0))

    table = read_csv(study / "both" / "comparison.csv")
    assert set(table["metric"]) == {"dice"}
    assert (
        "ours lacks assd_surface_mist, hd95_surface_mist, nsd_surface_mist; mist lacks assd, "
        "hd95, nsd."
    ) in " ".join(summary_of(study / "both")["notes"])


@pytest.mark.parametrize("name", ["hd95_surface_mist", "nsd_directed_panoptica"])
def test_metrics_of_others_are_not_computed(study, name):
    check_refused(run_evaluate(study, "--metrics", name), study, "must be among", f"got '{name}'")


def test_a_value_of_one_that_was_rounded_up_is_one(tmp_path):
    tables = [write_mist(tmp_path / f"{name}.csv", [1.0000001, 0.7]) for name in "ab"]
    done(
        run(
            "compare",
            *(f"{table.stem}={table}" for table in tables),
            "-o",
            tmp_path / "out",
            "--bootstrap",
            0,
        )
    )


def test_a_table_and_an_evaluation_must_have_the_same_labels(study):
    run_evaluate(study)
    (study / "a.tsv").write_text(PANOPTICA)
    both = (
        f"ours={study / 'out'}",
        f"theirs={study / 'a.tsv'}",
        "-o",
        study / "both",
        "--bootstrap",
        0,
    )
    check_refused(run("compare", *both), study, "same labels", "theirs lacks organ", out="both")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "patient,dice\na,1\n", ["tables of MIST or panoptica", "a.csv"]),
        # Not the name of an option of rank, which has teams.
        ("a.csv", "", ["`evaluations` must be tables of MIST or panoptica"]),
        ("a.csv", "id,tumour_kappa\na,1\n", ["known metric", "Dice"]),
        ("a.tsv", "subject_name\tx-global_bin_dsc\n", ["cases with a known metric"]),
        ("none.csv", None, ["summary.json", "none.csv"]),
        (
            "a.csv",
            "id,tumour_dice,label\na,1,x\n",
            ["`case` and `label` free", "a column label in", "Rename it"],
        ),
        ("a.csv", "id,tumour_dice,case\na,1,x\n", ["`case` and `label` free", "a column case in"]),
        (
            "a.csv",
            "id,tumour_dice\na,70\n",
            ["`dice` must be between 0 and 1", "tumour", "a.csv", "not per cent"],
        ),
        # A decimal comma must not become a missing value.
        (
            "a.tsv",
            "subject_name\tx-global_bin_dsc\na\t0,7\n",
            ["`x-global_bin_dsc` must be numbers, got '0,7' for 'a'", "a.tsv", "with a point"],
        ),
        ("a.csv", "id,tumour_dice\n,0.7\n", ["must name every case", "empty id", "Fill it in"]),
        ("a.csv", "id,tumour_dice\na,0.7,1\n", ["tables of MIST or panoptica", "a.csv"]),
    ],
)
def test_other_tables_are_refused(tmp_path, name, text, words):
    if text is not None:
        (tmp_path / name).write_text(text)
    good = write_mist(tmp_path / "good.csv", [0.5, 0.7])
    for command in ("compare", "rank"):
        check_refused(
            run(command, f"A={good}", f"B={tmp_path / name}", "-o", tmp_path / "out"),
            tmp_path,
            *words,
        )
