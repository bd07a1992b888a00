"""`nnunet-dro explore` as its users run it."""

import pandas as pd
import pytest

from nnunet_dro.evaluation.evaluating.result_files import evaluation_files
from nnunet_dro.files.output_folder import write_files
from tests.commands import done, run
from tests.evaluation.made_folders import check_refused, names_in, read_csv, summary_of
from tests.exploration.made import made
from tests.ranking.made import evaluation_of

FILES = ["explore.csv", "report.html", "summary.json"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("explore")
    write_files(root / "dro", evaluation_files(made(200, effect=0.15, labels=("liver", "spleen"))))
    write_files(root / "nothing", evaluation_files(made(100)))
    return root


def run_explore(results, out, *options, name="dro"):
    return run("explore", results / name, "-o", out, *options)


def test_what_stands_out_is_told_and_written(results, tmp_path):
    result = done(run_explore(results, tmp_path / "out", "--label", "liver"))

    lines = result.stdout.splitlines()

    assert "stand" in lines[0]

    text = " ".join(result.stdout.split())
    assert "Dice of liver, 200 cases." in text
    assert (
        "combinations of up to 2 of 4 attributes were looked at in one half (100 cases); 3 were tested"
        in text
    )
    assert "centre=A × scanner=X: mean Dice" in text
    assert lines[-1] == str(tmp_path / "out" / "report.html")
    assert names_in(tmp_path / "out") == FILES

    table = read_csv(tmp_path / "out" / "explore.csv")
    assert table.loc[0, ["combination", "metric", "label"]].tolist() == [
        "centre=A, scanner=X",
        "dice",
        "liver",
    ]
    assert table.loc[0, "confirmed"]

    summary = summary_of(tmp_path / "out")
    assert summary["format"] == "nnunet-dro exploration 1"
    assert summary["combinations"][0]["combination"] == "centre=A, scanner=X"
    assert summary["evaluation"]["by"] == ["centre", "scanner", "sex", "phase"]
    assert f"{summary['n_combinations']} combinations" in text


def test_columns_of_a_case_table_and_three_attributes(results, tmp_path):
    n = 200
    table = pd.DataFrame(
        {"case": [f"case_{i:03}" for i in range(n)], "age": [i * 7 % 90 for i in range(n)]}
    )
    table.to_csv(tmp_path / "cases.csv", index=False)

    options = ("--cases", tmp_path / "cases.csv", "--max-attributes", 3, "--min-cases", 4)

    text = " ".join(done(run_explore(results, tmp_path / "out", *options)).stdout.split())

    assert "age is cut into thirds of the cases: q1: 0 to" in text
    assert "of up to 3 of 5 attributes" in text
    assert list(summary_of(tmp_path / "out")["attributes"]["age"]) == [
        *("q1: 0 to 28", "q2: 29 to 58", "q3: 59 to 89")
    ]

    table.assign(centre="A").to_csv(tmp_path / "cases.csv", index=False)
    refused = run_explore(results, tmp_path / "other", *options)
    check_refused(refused, tmp_path, "got 'A' for '", "' in 'centre' of 'case_", out="other")


def test_nothing_stands_out_and_the_folder_is_replaced_only_if_asked(results, tmp_path):
    assert (
        done(run_explore(results, tmp_path, name="nothing")).stdout.splitlines()[0]
        == "Nothing stands out"
    )
    assert summary_of(tmp_path)["found"] == "Nothing stands out"
    assert "Nothing stands out" in (tmp_path / "report.html").read_text()

    check_refused(run_explore(results, tmp_path), tmp_path, "--overwrite", out=".", files=FILES)
    done(run_explore(results, tmp_path, "--overwrite"))

    assert summary_of(tmp_path)["n_cases"] == 200


def test_bad_input_is_one_line(results, tmp_path):
    for options, *words in (
        (("--label", "livr"), "`--label`", "'livr'", "Choose from: liver, spleen."),
        (("--metric", "dise"), "`--metric`", "'dise'", "Choose from: dice."),
        (("--by", "center"), "'center'", "Choose from: centre"),
        (("--min-cases", 90), "`--min-cases`", "none among 200 cases"),
        (("--min-cases", 1), "`--min-cases`", "at least 2"),
        (("--max-attributes", 4), "`--max-attributes` must be 1, 2 or 3"),
        (("--max-attributes", 0), "`--max-attributes` must be 1, 2 or 3"),
        (("--candidates", 0), "`--candidates` must be at least 1"),
        (("--cases", tmp_path / "none.csv"), "none.csv"),
    ):
        check_refused(run_explore(results, tmp_path / "out", *options), tmp_path, *words)
    check_refused(run_explore(results, tmp_path / "out", name="absent"), tmp_path, "summary.json")
    run_explore(results, tmp_path / "first", name="nothing")
    check_refused(
        run("explore", tmp_path / "first", "-o", tmp_path / "out"),
        tmp_path,
        "must hold a summary.json",
    )
    write_files(
        tmp_path / "dro", evaluation_files(evaluation_of("dro", {"dice": {"liver": [0.5, 0.6]}}))
    )
    check_refused(run_explore(tmp_path, tmp_path / "out"), tmp_path, "must name attributes", "--by")


def test_names_are_offered_after_tab(results, tmp_path):
    from types import SimpleNamespace

    from nnunet_dro.commands.completion import complete_attribute, complete_label, complete_metric

    (tmp_path / "cases.csv").write_text("case,scale,sex\na,1,f\n")

    context = SimpleNamespace(params={"results": results / "dro", "cases": tmp_path / "cases.csv"})

    assert complete_label(context, "") == ["liver", "spleen"]
    assert complete_label(context, "s") == ["spleen"]
    assert complete_metric(context, "d") == ["dice"]
    assert complete_attribute(context, "s") == ["scanner", "sex", "scale"]
    for params in ({}, {"results": tmp_path}):
        assert complete_label(SimpleNamespace(params=params), "") == []
