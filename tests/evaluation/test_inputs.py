"""What `nnunet-dro evaluate` takes: folders in every format, model folders, and a summary.json of
nnU-Net."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from nnunet_dro.nnunet.splits_file import SOURCE_CASES_FILE
from tests.commands import done, refused, run
from tests.evaluation import made_folders as made


def test_formats_may_be_mixed(tmp_path):
    endings = (".nii.gz", ".nii", ".nrrd", ".mha")
    for n, ending in enumerate(endings):
        geometry = {"spacing": (0.5, 1, 2), "origin": (-5, 7, 9)}
        made.write_map(tmp_path / "reference" / f"{n:03}{ending}", made.bars(4), **geometry)
        made.write_map(
            tmp_path / "prediction" / f"{n:03}{endings[n - 1]}", made.bars(4, n), **geometry
        )

    made.write_dataset_json(tmp_path)

    assert made.run_evaluate(tmp_path).exit_code == 0

    assert made.dice_of(tmp_path / "out") == {"000": 1.0, "001": 0.75, "002": 0.5, "003": 0.25}
    assert made.scores_of(tmp_path / "out")["label"].tolist() == ["tumour", "organ"] * 4
    assert made.scores_of(tmp_path / "out")["reference_ml"].tolist() == [0.004, 0.002] * 4


def test_names_in_another_unicode_form_are_those_of_the_files(tmp_path):
    """macOS may write an ü as two characters."""
    made.write_pair(tmp_path, "M\u00fcller.nii.gz", made.bars(4), made.bars(4, 1))
    predictions = tmp_path / "prediction"
    (predictions / "M\u00fcller.nii.gz").rename(predictions / "Mu\u0308ller.nii.gz")
    (tmp_path / "cases.csv").write_text(
        "case,centre,M\u00fctter\nMu\u0308ller,A,1\n", encoding="utf-8"
    )

    options = ["--by", "centre", "--patient", "Mu\u0308tter", "--cases", tmp_path / "cases.csv"]
    done(made.run_evaluate(tmp_path, *options))

    assert made.summary_of(tmp_path / "out")["options"]["patient"] == "M\u00fctter"

    assert list(made.scores_of(tmp_path / "out").groupby(["case", "centre"]).groups) == [
        ("M\u00fcller", "A")
    ]


def test_options_may_spell_labels_and_strata_in_another_unicode_form(tmp_path):
    made.write_study(tmp_path, [0, 1], ort=["K\u00f6ln", "Bonn"])
    made.write_dataset_json(tmp_path / "reference", {"background": 0, "L\u00e4sion": 1, "organ": 2})

    options = ["--by", "ort", "--reference-stratum", "Ko\u0308ln", "--instances", "La\u0308sion"]
    requirement = "ort=Ko\u0308ln label=La\u0308sion mean>=0.9 n>=1"
    done(made.run_evaluate(tmp_path, *options, "--require", requirement))

    summary = made.summary_of(tmp_path / "out")
    scores = made.scores_of(tmp_path / "out")
    assert {row["best_stratum"] for row in summary["worst"] if row["attribute"] == "ort"} == {
        "K\u00f6ln"
    }
    assert scores.loc[scores["pq"].notna(), "label"].tolist() == ["L\u00e4sion"] * 2

    team = tmp_path / "out"
    words = (f"a={team}", f"b={team}", "-o", tmp_path / "ranking", "--metric-weight", "pq=0")
    done(run("rank", *words, "--label-weight", "La\u0308sion=2"))


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_distances_of_pictures_are_in_pixels_and_volumes_are_not_missed(tmp_path, ending):
    made.write_pair(tmp_path, f"a{ending}", made.bars(4)[1], made.bars(4, 1)[1])

    result = done(made.run_evaluate(tmp_path, "--metrics", "dice,hd95,nsd"))
    made.run_evaluate(tmp_path, "--metrics", "dice,hd95", out="new")
    made.run_evaluate(tmp_path, out="dice")

    compared = run(
        "compare",
        *[f"{name}={tmp_path / name}" for name in ("out", "new")],
        "-o",
        tmp_path / "compared",
    )

    assert made.dice_of(tmp_path / "out", "1") == {"a": 0.75}
    assert made.scores_of(tmp_path / "out")["reference_ml"].isna().all()

    summary = made.summary_of(tmp_path / "out")
    assert summary["definitions"]["nsd"].endswith("tolerance 1 px")
    assert summary["notes"][0] == "The images have no voxel size: distances are in pixels (px)."
    assert not any("pixel" in note for note in made.summary_of(tmp_path / "dice")["notes"])
    for text in (result.output, compared.output):
        assert "HD95" in text
        assert "(px)" in text

    for name in (
        f"{folder}/report.{ending}"
        for folder in ("out", "compared")
        for ending in ("html", "md", "tex")
    ):
        text = (tmp_path / name).read_text(encoding="utf-8")
        text = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.S)
        assert "px" in text
        assert not re.search(r"\b(mm|ml)\b", text)


@pytest.mark.parametrize("where", ["reference", ".", "other"])
def test_dataset_json_is_found_beside_and_above_and_can_be_named(without_labels, where):
    (without_labels / "other").mkdir()
    made.write_dataset_json(without_labels / where, {"background": 0, "both": [1, 2], "rest": [2]})
    named = (
        ("--dataset-json", without_labels / "other" / "dataset.json") if where == "other" else ()
    )

    made.run_evaluate(without_labels, *named)

    assert made.scores_of(without_labels / "out")["label"].unique().tolist() == ["both", "rest"]


def test_without_dataset_json_the_values_in_references_are_the_labels(tmp_path):
    made.write_study(tmp_path, shifts=(0, 1), dataset_json=False)
    predicted = made.bars(4, 1)
    predicted[7, 7, 7] = 9

    made.write_map(tmp_path / "prediction" / "case_01.nii.gz", predicted)

    assert "not scored: 9" in " ".join(made.run_evaluate(tmp_path).stdout.split())
    assert made.scores_of(tmp_path / "out")["label"].tolist() == ["1", "2"] * 2
    assert any("not scored: 9" in note for note in made.summary_of(tmp_path / "out")["notes"])

    # nnU-Net writes one beside its predictions.
    made.write_dataset_json(tmp_path / "prediction")
    done(made.run_evaluate(tmp_path, "--overwrite"))
    notes = " ".join(made.summary_of(tmp_path / "out")["notes"])
    assert f"{tmp_path / 'prediction' / 'dataset.json'} is not read" in notes


def test_a_value_below_0_is_no_label_unless_dataset_json_says_so(tmp_path):
    made.write_study(tmp_path, shifts=(0, 1), dataset_json=False)
    values = made.bars(4, 1).astype(np.int16)
    values[7, 7, 7] = -1
    for folder in ("prediction", "reference"):
        made.write_map(tmp_path / folder / "case_01.nii.gz", values, dtype=np.int16)

    result = run(
        "evaluate", tmp_path / "reference", tmp_path / "prediction", "-o", tmp_path / "out"
    )
    refused(result, "must have label values from 0 on", "got -1 in", "case_01.nii.gz")

    labels = {"background": 0, "a": 1, "b": 2, "ignore": -1}
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": labels}))
    made.run_evaluate(tmp_path)
    assert made.scores_of(tmp_path / "out")["label"].tolist() == ["a", "b"] * 2


@pytest.fixture
def few_of_a_model(tmp_path):
    """A model folder whose only fold has 3 of 12 references, with a case table: three in A, and
    nine in A, B and C."""
    made.write_study(
        tmp_path, [0] * 12, site=["A", "A", "A", "B", "B", "C", "C", "A", "A", "B", "C", "C"]
    )
    fold = tmp_path / "T__P__3d" / "fold_0" / "validation"
    fold.mkdir(parents=True)
    for n in range(3):
        (tmp_path / "prediction" / f"case_{n:02}.nii.gz").rename(fold / f"case_{n:02}.nii.gz")
    return tmp_path


def requirements_on(study, prediction, *texts, options=()):
    arguments = (
        study / "reference",
        prediction,
        "-o",
        study / "out",
        "--bootstrap",
        0,
        "--overwrite",
        *options,
    )
    result = run("evaluate", *arguments, *(word for text in texts for word in ("--require", text)))
    assert result.exit_code in (0, 3, 4), result.output
    return (
        result.exit_code,
        result.stderr,
        [one["verdict"] for one in made.summary_of(study / "out")["requirements"]],
    )


def test_a_model_folder_with_few_of_the_references_passes_no_requirement(few_of_a_model):
    model = few_of_a_model / "T__P__3d"

    code, errors, words = requirements_on(
        few_of_a_model, model, "label=tumour mean>=0.9", "label=tumour min>=2%"
    )

    assert (code, words) == (4, ["cannot tell", "cannot tell"])
    assert (
        "mean 1.000 is >= 0.9 (3 cases); 9 more references have no prediction; if 3 are enough, add n>=3"
        in errors
    )

    summary = made.summary_of(few_of_a_model / "out")
    assert summary["inputs"]["references_without_prediction"] == [
        f"case_{n:02}" for n in range(3, 12)
    ]
    assert (
        "9 of 12 references have no prediction in these folds and are not evaluated."
        in summary["notes"]
    )

    # Nor does a comparison.
    out = few_of_a_model / "out"
    twice = (f"a={out}", f"b={out}", "-o", out.with_name("c"))
    compared = done(run("compare", *twice, "--require", "mean_difference>=0pt"), 4)

    assert "9 more cases are not in every evaluation; if 3 are enough, add n>=3" in compared.stderr
    assert (
        requirements_on(few_of_a_model, model, "label=tumour mean>=0.9 n>=3", "label=tumour n>=3")[
            0
        ]
        == 0
    )
    # Whoever names a fold asks for its cases, and those that count as failed are not absent.
    for fold in (model / "fold_0", model / "fold_0" / "validation"):
        assert requirements_on(few_of_a_model, fold, "label=tumour mean>=0.9")[0] == 0

    worst = requirements_on(
        few_of_a_model, model, "label=tumour mean>=0.9", options=("--missing", "worst")
    )
    assert worst[2] == ["not met"]


@pytest.mark.parametrize("place", ["fold_0", "fold_0/validation"])
def test_a_fold_is_known_from_inside_of_it(few_of_a_model, monkeypatch, place):
    monkeypatch.chdir(few_of_a_model / "T__P__3d" / place)
    code, _, _ = requirements_on(few_of_a_model, ".", "label=tumour mean>=0.9")
    assert code == 0

    # Cases of other folds are not missing.
    folders = (few_of_a_model / "reference", ".", "-o", few_of_a_model / "worst")
    refused(run("evaluate", *folders, "--missing", "worst"), "a part of the folds is evaluated")


def test_absent_references_count_in_their_strata(few_of_a_model):
    texts = ("label=tumour site=* mean>=0.9", "label=tumour site=C n>=1")
    _, errors, words = requirements_on(
        few_of_a_model, few_of_a_model / "T__P__3d", *texts, options=("--by", "site")
    )

    assert words == ["cannot tell", "not met", "not met", "not met"]
    assert (
        "site=A label=tumour: mean 1.000 is >= 0.9 (3 cases); 2 more references have no prediction"
        in errors
    )

    none = "none of its cases in the case table was evaluated"
    assert (
        f"site=B label=tumour: mean has no value that could be >= 0.9 (0 cases); {none}" in errors
    )
    assert errors.count(f"site=C label=tumour: n 0 is not >= 1 (0 cases); {none}") == 1


def test_a_summary_json_that_lacks_references_passes_no_requirement(without_labels):
    path = write_summary(without_labels / "summary.json", case_00=(1, 0, 0))
    refused = run(
        "evaluate", without_labels / "reference", path, "-o", without_labels / "no", "-f", 0
    )
    made.check_refused(
        refused, without_labels, "`--folds` must come with the folder of a model", out="no"
    )
    fold = without_labels / "fold_0" / "validation"

    fold.mkdir(parents=True)

    assert requirements_on(without_labels, path, "mean>=0.9")[2] == ["cannot tell"]
    assert requirements_on(without_labels, path.rename(fold / "summary.json"), "mean>=0.9")[2] == [
        "met"
    ]


def test_every_stratum_of_the_case_table_is_every_stratum(tmp_path):
    made.write_study(tmp_path, shifts=[0] * 4)
    rows = [
        "case,site,age",
        *(f"case_{n:02},{site},{n}" for n, site in enumerate("AABB")),
        "x,D,3",
        "y,,7",
        "z,A,70",
    ]
    (tmp_path / "cases.csv").write_text("\n".join(rows) + "\n")
    by = ("--by", "site", "--by", "age:0,5,9", "--by", "site,age:q2")
    texts = (
        "label=tumour site=* n>=1",
        "label=tumour age=* n>=1",
        "label=tumour n>=1",
        "label=tumour site,age=* n>=1",
    )

    code, errors, words = requirements_on(tmp_path, tmp_path / "prediction", *texts, options=by)

    assert code == 3
    # D and the ages from 5 on have no case; nobody expects `missing`, or quantiles of other cases.
    assert [line.split(": ")[2] for line in errors.splitlines()] == [
        "site=D label=tumour",
        "age='5 to 9' label=tumour",
    ]
    assert words.count("not met") == 2

    strata = made.read_csv(tmp_path / "out" / "strata.csv")
    assert "n_absent" not in strata
    assert "D" not in strata["stratum"].tolist()


def test_quantiles_of_other_cases_can_be_cut_anew_to_compare(tmp_path):
    made.write_study(tmp_path, shifts=[0] * 6, age=[1, 2, 3, 4, 5, 6])
    done(made.run_evaluate(tmp_path, "--by", "age:q2", out="all"))
    for folder in ("reference", "prediction"):
        (tmp_path / folder / "case_05.nii.gz").unlink()
        (tmp_path / folder / "case_04.nii.gz").unlink()
    done(made.run_evaluate(tmp_path, "--by", "age:q2", out="fewer"))
    compared = [f"{name}={tmp_path / name}" for name in ("all", "fewer")]

    refused = run("compare", *compared, "-o", tmp_path / "no", "--intersect")

    made.check_refused(refused, tmp_path, "--by age:q3 to have those of the common", out="no")
    done(run("compare", *compared, "-o", tmp_path / "c", "--intersect", "--by", "age:q2"))
    strata = set(made.read_csv(tmp_path / "c" / "comparison.csv")["stratum"])
    assert strata == {"q1: 1 to 2", "q2: 3 to 4"}


def test_distances_without_a_voxel_size_are_not_compared_with_mm(tmp_path):
    for n in range(4):
        made.write_pair(tmp_path, f"case_{n}.png", *[np.pad(np.ones((3, 3)), 2)] * 2)
    required = ("metric=hd95 mean<=4mm", "metric=hd95 mean<=4")

    _, errors, words = requirements_on(
        tmp_path, tmp_path / "prediction", *required, options=("--metrics", "dice,hd95")
    )

    assert words == ["cannot tell", "met"]
    assert "mean 0.000 px is <= 4mm (4 cases); no voxel size is known" in errors

    made.write_pair(tmp_path, "case_4.nii.gz", *[np.pad(np.ones((3, 3, 3)), 2)] * 2)
    for metric in ("hd95", "volume_error", "nsd"):
        made.check_refused(
            made.run_evaluate(tmp_path, "--metrics", f"dice,{metric}", out="mixed"),
            tmp_path,
            "none in case_0, case_1, case_2, case_3",
            out="mixed",
        )


def test_missing_predictions_can_be_scored_as_failed(tmp_path):
    made.write_study(tmp_path, shifts=(0, 1, 2))
    (tmp_path / "prediction" / "case_01.nii.gz").unlink()

    done(made.run_evaluate(tmp_path, "--missing", "worst", "--metrics", "dice,hd95"))

    assert made.dice_of(tmp_path / "out") == {"case_00": 1.0, "case_01": 0.0, "case_02": 0.5}

    failed = made.scores_of(tmp_path / "out").set_index(["case", "label"]).loc["case_01"]
    assert failed["hd95"].tolist() == pytest.approx([7 * 3**0.5] * 2)

    summary = made.summary_of(tmp_path / "out")
    assert summary["inputs"]["missing_predictions"] == ["case_01"]
    assert "Cases without a prediction are scored as failed: case_01." in summary["notes"]


def test_extra_predictions_are_named_and_other_files_play_no_part(study):
    made.write_map(study / "prediction" / "stranger.nii.gz", made.bars(4))
    for name in ("dataset.json", "plans.json", "case_00.npz", "case_00.pkl", ".hidden.nii.gz"):
        (study / "prediction" / name).write_text("no label map")

    note = "Predictions without a reference are not evaluated: stranger."

    assert note in " ".join(done(made.run_evaluate(study)).stdout.split())
    assert note in made.summary_of(study / "out")["notes"]
    assert set(made.dice_of(study / "out")) == {"case_00", "case_01"}


def test_flipped_storage_of_the_same_grid_gives_the_same_dice(tmp_path):
    made.write_map(tmp_path / "reference" / "a.nii.gz", made.bars(4), spacing=(2, 1, 1))
    moved = made.bars(4, 1)[:, ::-1, ::-1]
    turned = (-1, 0, 0, 0, -1, 0, 0, 0, 1)
    made.write_map(
        tmp_path / "prediction" / "a.nii.gz",
        moved,
        spacing=(2, 1, 1),
        origin=(14, 7, 0),
        direction=turned,
    )

    made.write_dataset_json(tmp_path)

    assert made.run_evaluate(tmp_path).exit_code == 0
    assert made.dice_of(tmp_path / "out") == {"a": 0.75}


def test_table_of_a_whole_study_fits_the_cases_of_a_fold(tmp_path):
    made.write_study(tmp_path, centre=["A", "B", "A", "B", "C", "C"])
    fold = tmp_path / "trainer" / "fold_0"
    fold.mkdir(parents=True)
    (tmp_path / "prediction").rename(fold / "validation")
    (fold / "validation" / "case_03.nii.gz").unlink()

    done(run("evaluate", tmp_path / "reference", fold, "-o", tmp_path / "out", "--by", "centre"))

    n_cases = {("centre", "A"): 2, ("centre", "B"): 1, ("all", "all"): 3}

    assert made.strata_of(tmp_path / "out")["n"].to_dict() == n_cases

    # Rows of training cases are noted once.
    note = "2 rows of the case table have no reference and are not evaluated."
    assert made.summary_of(tmp_path / "out")["notes"].count(note) == 1


def test_numbers_that_are_not_cut_are_noted_with_the_cure(tmp_path):
    columns = {
        "age": range(7),
        "centre": list("ABABABA"),
        "site": [1, 2, 3, 4, 5, 6, 6],
        "name": list("ABCDEFG"),
    }
    made.write_study(tmp_path, (0, 1, 2, 4, 0, 1, 2), **columns)

    by = [
        word for column in ("age", "centre", "site", "name", "age:q3") for word in ("--by", column)
    ]

    done(made.run_evaluate(tmp_path, *by))

    assert [
        note for note in made.summary_of(tmp_path / "out")["notes"] if "strata for" in note
    ] == [
        f"{name} has {n} strata for 7 cases. --by {name}:q3 cuts the numbers into thirds of the cases."
        for name, n in (("age", 7), ("site", 6))
    ]


@pytest.mark.parametrize(
    "option", [("--by", "centre"), ("--by", "auto:size,centre"), ("--patient", "centre")]
)
def test_the_case_table_of_the_dataset_is_found(study, option):
    cases = made.write_cases(study, centre=["A", "B"])
    done(made.run_evaluate(study, *option))

    summary = made.summary_of(study / "out")

    assert summary["options"]["cases"] == str(cases)
    assert f"The case table is {cases}; --cases names another." in summary["notes"]
    assert "centre" in made.scores_of(study / "out")


@pytest.mark.parametrize("option", [(), ("--by", "auto:size:0,1,10")])
def test_a_case_table_that_nothing_asks_for_is_left_alone(study, option):
    (study / "cases.csv").write_text("patient,dice\nx,1\n")
    done(made.run_evaluate(study, *option))

    assert made.summary_of(study / "out")["options"]["cases"] is None


def write_summary(path, **entries):
    """A summary.json with one label per case; entries are TP, FP, FN, and n_ref and n_pred if there
    are five."""
    cases = [
        {
            "reference_file": f"labels/{case}.nii.gz",
            "prediction_file": f"predictions/{case}.nii.gz",
            "metrics": {
                "1": dict(zip(("TP", "FP", "FN", "n_ref", "n_pred"), counts, strict=False))
            },
        }
        for case, counts in entries.items()
    ]
    path.write_text(json.dumps({"metric_per_case": cases}))
    return path


FITTING = (50, 3, 2, 52, 53)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["Check the path"]),
        ("{", ["summary.json of nnU-Net", "beside the predictions"]),
        ("[]", ["summary.json of nnU-Net"]),
        (
            '{"id": "x", "results": {"all": [{"1": {"Dice": 0.5}}], "mean": {}}, "task": "T"}',
            [
                "nnU-Net v1 wrote",
                "does not have the numbers of voxels",
                "folder of the predictions",
            ],
        ),
        ('{"metric_per_case": []}', ["must have cases"]),
        ('{"metric_per_case": [{"prediction_file": "a.nii.gz"}]}', ["summary.json of nnU-Net"]),
        (
            '{"metric_per_case": [{"reference_file": "a.png", "prediction_file": "a.png", "metrics": '
            '{"0": {"TP": 9, "FP": 0, "FN": 0}}}]}',
            ["must have the scores of a label", "evaluate again"],
        ),
        ({"case_00": (1, float("nan"), 0)}, ["summary.json of nnU-Net"]),
        ({"case_00": (1, -1, 0)}, ["summary.json of nnU-Net"]),
        ({"case_00": (1, "x", 0)}, ["summary.json of nnU-Net"]),
        ({"case_00": (1, 2, 0)}, ["organ", "case_00", "dataset.json"]),
        ({"other": (1, 0, 0)}, ["other", "case_00", "Give"]),
        ({"case_00": (1, 0, 0), "other/case_00": (1, 0, 0)}, ["case_00", "Remove"]),
        (
            {"case_00": FITTING, "case_01": (500, 0, 0, 100, 500)},
            [
                "must have counts that fit",
                "TP 500 + FN 0 and n_ref 100 for 1 of 'case_01'",
                "evaluate again",
            ],
        ),
        (
            {"case_00": FITTING, "case_01": (50, 3, 2, 52, 50)},
            ["TP 50 + FP 3 and n_pred 50 for 1 of 'case_01'"],
        ),
    ],
)
def test_unusable_summary_json_is_refused(study, content, words):
    path = study / "summary.json"
    if isinstance(content, dict):
        write_summary(path, **content)
    elif content:
        path.write_text(content)
    if "organ" not in words:
        (study / "reference" / "dataset.json").unlink()

    made.check_refused(
        run("evaluate", study / "reference", path, "-o", study / "out"), study, *words
    )


@pytest.fixture
def without_labels(tmp_path):
    return made.write_study(tmp_path, shifts=(0, 1), dataset_json=False)


def test_summary_json_that_lacks_cases_is_noted_and_never_scored_as_failed(without_labels):
    study = without_labels
    path = write_summary(study / "summary.json", case_00=FITTING, stranger=(1, 1, 1))
    command = ("evaluate", study / "reference", path)

    done(run(*command, "-o", study / "out", "--bootstrap", 0, "--metrics", "relative_volume_error"))

    assert made.scores_of(study / "out")["relative_volume_error"].tolist() == [1 / 52, 0]

    notes = made.summary_of(study / "out")["notes"]
    assert "1 of 2 references are not in the summary.json and are not evaluated." in notes
    assert (
        "Evaluated by the counts in summary.json, without a file among the references: stranger."
        in notes
    )

    done(run(*command, "-o", study / "by", "--bootstrap", 0, "--by", "auto:components"))
    assert made.scores_of(study / "by")["auto:components"].tolist() == ["2", "missing"]

    for options, words in (
        (("--missing", "worst"), ["case_01", "folder of the predictions"]),
        (("--metrics", "dice,hd95"), [path, "hd95", "folder of the predictions"]),
        (("--metrics", "volume_error,relative_volume_error"), ["got volume_error, which"]),
        (
            ("--instances", "*", "--metrics", "lesion_f1"),
            ["must follow from voxel counts", "lesion_f1"],
        ),
    ):
        made.check_refused(run(*command, "-o", study / "no", *options), study, *words, out="no")


def test_hostile_paths_in_summary_json_stay_text(tmp_path):
    made.write_map(tmp_path / "reference" / "x.nii.gz", made.bars(4))
    made.write_map(tmp_path / "reference" / "<script>alert(1)<script>.nii.gz", made.bars(4))
    path = write_summary(
        tmp_path / "summary.json", **{"../x": (1, 0, 1), "<script>alert(1)<script>": (1, 1, 1)}
    )

    done(run("evaluate", tmp_path / "reference", path, "-o", tmp_path / "out", "--bootstrap", 0))

    assert made.scores_of(tmp_path / "out")["case"].tolist() == ["<script>alert(1)<script>", "x"]
    assert "<script>alert(1)" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "reference", "summary.json"]


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """The folders of nnU-Net with the validation predictions of two folds of a model, and a fold
    without any, as in models that nnU-Net exports."""
    for name in ("raw", "preprocessed", "results"):
        monkeypatch.setenv(f"nnUNet_{name}", str(tmp_path / name))
    dataset = tmp_path / "preprocessed" / "Dataset007_Tiny"
    made.write_study(dataset, shifts=(0, 1, 2))
    (dataset / "reference").rename(dataset / "gt_segmentations")
    model = tmp_path / "results" / dataset.name / "nnUNetTrainerDRO__nnUNetPlans__3d_fullres"
    for fold in range(2):
        (model / f"fold_{fold}" / "validation").mkdir(parents=True)
        name = f"case_{fold:02}.nii.gz"
        (dataset / "prediction" / name).rename(model / f"fold_{fold}" / "validation" / name)
    (model / "fold_2" / "validation").mkdir(parents=True)
    (model.parent / "nnUNetTrainer__nnUNetPlans__2d").mkdir()
    return tmp_path


_OF_MODEL = ("-d", 7, "-c", "3d_fullres", "-tr", "nnUNetTrainerDRO")


@pytest.mark.parametrize(
    ("options", "dice"),
    [
        ((), {"case_00": 1, "case_01": 0.75}),
        (("-d", "Dataset007_Tiny", "-p", "nnUNetPlans"), {"case_00": 1, "case_01": 0.75}),
        (("-f", 1), {"case_01": 0.75}),
        (("-f", 0, 1), {"case_00": 1, "case_01": 0.75}),
        (("--folds", 1, 0, "--folds", 1), {"case_00": 1, "case_01": 0.75}),
    ],
)
@pytest.mark.parametrize("has_only_raw", [False, True])
def test_trained_model_is_found_by_the_names_that_nnunet_takes(
    trained, monkeypatch, options, dice, has_only_raw
):
    if has_only_raw:
        raw = trained / "raw" / "Dataset007_Tiny"
        raw.mkdir(parents=True)
        (trained / "preprocessed" / "Dataset007_Tiny" / "gt_segmentations").rename(raw / "labelsTr")
        monkeypatch.delenv("nnUNet_preprocessed")

    done(run("evaluate", *_OF_MODEL, *options, "-o", trained / "out", "--bootstrap", 0))

    assert made.dice_of(trained / "out") == dice

    model = trained / "results" / "Dataset007_Tiny" / "nnUNetTrainerDRO__nnUNetPlans__3d_fullres"
    summary = made.summary_of(trained / "out")

    assert summary["method"] == model.name
    assert Path(summary["options"]["prediction"]) == model

    # Of chosen folds, those of the others are not expected.
    expected = [] if {"-f", "--folds"} & set(options) else ["case_02"]
    assert summary["inputs"]["references_without_prediction"] == expected


def test_references_that_nnunet_has_not_copied_again_are_named(trained):
    copies = trained / "preprocessed" / "Dataset007_Tiny" / "gt_segmentations"
    originals = trained / "raw" / "Dataset007_Tiny" / "labelsTr"
    shutil.copytree(copies, originals)
    done(run("evaluate", *_OF_MODEL, "-o", trained / "same", "--bootstrap", 0))

    # The second is not evaluated.
    for case in ("case_01", "case_02"):
        made.write_map(originals / f"{case}.nii.gz", made.bars(4, 1))
    done(run("evaluate", *_OF_MODEL, "-o", trained / "out", "--bootstrap", 0))

    before = made.summary_of(trained / "same")["notes"]
    new = [note for note in made.summary_of(trained / "out")["notes"] if note not in before]
    assert new == [
        "In labelsTr these cases have other files than their copies in gt_segmentations, which were "
        "read: case_01. nnU-Net keeps a copy where the original has an earlier date. Name labelsTr "
        "as the folder of references to score by it."
    ]


@pytest.fixture
def divided_again(trained):
    """The same after another division: fold 0 is now trained on case_00, whose prediction by the
    network of the earlier division nnU-Net leaves in fold_0/validation. Its log has case_02, on
    which it was trained before."""
    dataset = trained / "preprocessed" / "Dataset007_Tiny"
    model = trained / "results" / dataset.name / "nnUNetTrainerDRO__nnUNetPlans__3d_fullres"
    (dataset / "prediction" / "case_02.nii.gz").rename(
        model / "fold_0" / "validation" / "case_02.nii.gz"
    )
    folds = [(["case_00", "case_01"], ["case_02"]), (["case_00", "case_02"], ["case_01"])]
    splits = [{"train": train, "val": val} for train, val in folds]
    (dataset / "splits_final.json").write_text(json.dumps(splits))
    rows = "epoch,case,loss,draws\n0,case_00,1,1\n0,case_02,1,0\n"
    (model / "fold_0" / "hardness.csv").write_text(rows)
    return model


_TRAINED_BEFORE = (
    "The scores of these cases are too good, for fold_0 was trained on them before "
    "splits_final.json was changed, or may have been in the model that it was started from: case_02."
)


@pytest.mark.parametrize(
    ("options", "dice"),
    [((), {"case_01": 0.75, "case_02": 0.5}), (("-f", 0), {"case_02": 0.5})],
)
def test_training_cases_of_a_fold_are_not_evaluated(trained, divided_again, options, dice):
    done(run("evaluate", *_OF_MODEL, *options, "-o", trained / "out", "--bootstrap", 0))

    assert made.dice_of(trained / "out") == dice
    notes = {
        "Left out, for splits_final.json has them in the training part of fold_0: case_00.",
        _TRAINED_BEFORE,
    }
    assert notes <= set(made.summary_of(trained / "out")["notes"])


def test_cases_that_the_source_of_a_fold_has_seen_are_named(trained, divided_again):
    fold = divided_again / "fold_0"
    (fold / "hardness.csv").rename(fold / SOURCE_CASES_FILE).write_text("case_02\nelsewhere")
    done(run("evaluate", *_OF_MODEL, "-o", trained / "out", "--bootstrap", 0))
    assert _TRAINED_BEFORE in made.summary_of(trained / "out")["notes"]


def test_training_cases_in_a_summary_are_not_evaluated(trained, divided_again):
    references = trained / "preprocessed" / "Dataset007_Tiny" / "gt_segmentations"
    counts = {"TP": 3, "FP": 1, "FN": 1}
    entries = [
        {
            "reference_file": str(references / f"{case}.nii.gz"),
            "prediction_file": f"/elsewhere/{case}.nii.gz",
            "metrics": {"1": counts, "2": counts},
        }
        for case in ("case_00", "case_02")
    ]
    summary = divided_again / "fold_0" / "validation" / "summary.json"
    summary.write_text(json.dumps({"metric_per_case": entries}))

    done(run("evaluate", references, summary, "-o", trained / "out", "--bootstrap", 0))

    assert set(made.scores_of(trained / "out")["case"]) == {"case_02"}
    left_out, trained_before, *_ = made.summary_of(trained / "out")["notes"]
    assert left_out.endswith("training part of fold_0: case_00.")
    assert trained_before == _TRAINED_BEFORE


def test_a_fold_with_training_cases_only_is_refused(trained, divided_again):
    (divided_again / "fold_0" / "validation" / "case_02.nii.gz").unlink()
    done(run("evaluate", *_OF_MODEL, "-o", trained / "both", "--bootstrap", 0))
    assert made.dice_of(trained / "both") == {"case_01": 0.75}

    made.check_refused(
        run("evaluate", *_OF_MODEL, "-f", 0, "-o", trained / "out", "--bootstrap", 0),
        trained,
        "must have cases that the fold is not trained on, got only case_00",
        "fold_0/validation",
        "--val",
    )


@pytest.mark.parametrize("content", ["[]", "{", '[{"val": []}]'])
def test_unusable_folds_are_named_before_a_model_is_evaluated(trained, divided_again, content):
    splits = trained / "preprocessed" / "Dataset007_Tiny" / "splits_final.json"
    splits.write_text(content)
    made.check_refused(
        run("evaluate", *_OF_MODEL, "-o", trained / "out"),
        trained,
        "`splits_final.json` must be a list of folds",
        "nnunet-dro splits --force",
    )


@pytest.mark.parametrize("chosen", ["folds", "folder", "only"])
def test_a_model_trained_on_all_cases_says_nothing_about_new_patients(trained, chosen):
    model = trained / "results" / "Dataset007_Tiny" / "nnUNetTrainerDRO__nnUNetPlans__3d_fullres"
    (model / "fold_0").rename(model / "fold_all")
    for name in ("fold_1", "fold_2") if chosen == "only" else ():
        (model / name).rename(trained / name)
    folders = (
        trained / "preprocessed" / "Dataset007_Tiny" / "gt_segmentations",
        model / "fold_all",
    )
    named = {"folds": (*_OF_MODEL, "-f", "all"), "folder": folders, "only": _OF_MODEL}[chosen]

    done(run("evaluate", *named, "-o", trained / "out", "--bootstrap", 0))

    assert any(
        "say nothing about new patients" in note
        for note in made.summary_of(trained / "out")["notes"]
    )


DATASET_LACKS = ["must come with `--dataset`", "Add -d DATASET"]
MODELS = [
    (
        (*_OF_MODEL, "-d", 8),
        [
            "`--dataset`",
            "got '8', of which no model is trained yet. Choose from: Dataset007_Tiny; or",
            "or train one: nnUNetv2_train 8 3d_fullres FOLD -tr nnUNetTrainerDRO.",
        ],
    ),
    (
        (*_OF_MODEL, "-tr", "nnUNetTrainerERM"),
        ["`--trainer`", "nnUNetTrainerERM", "Choose from: nnUNetTrainer"],
    ),
    (
        (*_OF_MODEL, "-p", "Other"),
        ["`--plans`", "'Other'", "Choose from: nnUNetPlans; or train one"],
    ),
    (
        (*_OF_MODEL, "-c", "2d"),
        ["`--configuration`", "'2d'", "nnUNetPlans, got", "Choose from: 3d_fullres; or"],
    ),
    (
        (*_OF_MODEL, "-f", 0, 2, 3),
        ["`--folds`", "there are fold_0, fold_1", "got fold_2, fold_3", "--val"],
    ),
    ((*_OF_MODEL, "-c", ""), ["`--configuration`", "got none", "3d_fullres"]),
    (
        (*_OF_MODEL, "-f", 0, "--missing", "worst"),
        ["`--missing` must be error", "case_01, case_02", "of other folds"],
    ),
    ((*_OF_MODEL, "-f"), ["`--folds` must have a value", "got -f before '-o'", "-f 0 1"]),
    # Either two folders or a model with its dataset.
    ((), ["got neither", "-d DATASET"]),
    (("a",), ["got one folder", "-d DATASET"]),
    (("a", "b", *_OF_MODEL), ["got both", "-d DATASET"]),
    *(
        ((*folders, name, "x"), DATASET_LACKS)
        for name in ("-c", "-tr", "-p")
        for folders in ((), ("a", "b"))
    ),
]
WITHOUT_VARIABLES = [
    (
        ["nnUNet_results"],
        ["`nnUNet_results` must be set", "export nnUNet_results=...", "or give folders"],
    ),
    (
        ["nnUNet_preprocessed"],
        ["gt_segmentations of Dataset007_Tiny", "no such folder", "labelsTr"],
    ),
    (
        ["nnUNet_preprocessed", "nnUNet_raw"],
        ["gt_segmentations of Dataset007_Tiny", "neither variable set"],
    ),
]


@pytest.mark.parametrize(
    ("arguments", "unset", "words"),
    [
        *((arguments, [], words) for arguments, words in MODELS),
        *((_OF_MODEL, unset, words) for unset, words in WITHOUT_VARIABLES),
    ],
    ids=str,
)
def test_what_was_not_trained_or_cannot_be_found_is_refused(
    trained, monkeypatch, arguments, unset, words
):
    for variable in unset:
        monkeypatch.delenv(variable)
    made.check_refused(run("evaluate", *arguments, "-o", trained / "out"), trained, *words)
