"""Tables of MIST and panoptica in comparisons and rankings, in the formats that their sources
write."""

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.other_tables import read_scores
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
    assert table.loc[("B", "tumour", "hd95"), "mean_difference"] == pytest.approx(0.2)
    assert table.loc[("B", "whole_organ", "dice"), "n"] == 2
    assert summary_of(tmp_path / "out")["about"]["definitions"]["hd95"] == "as MIST defines it"
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
        "assd",
        "lesion_recall",
        "lesion_precision",
        "pq",
        "sq",
        "rq",
    )
    assert rows.loc["case_00", ["dice", "pq", "assd", "lesions_found"]].tolist() == [
        0.9,
        0.75,
        0.84,
        1,
    ]
    assert np.isnan(rows.loc["case_01", "assd"])

    (assd,) = evaluation.strata[evaluation.strata["metric"] == "assd"].to_dict("records")
    assert (assd["n"], assd["n_missed"], assd["n_left_out"], assd["mean"]) == (2, 1, 1, 0.84)


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
