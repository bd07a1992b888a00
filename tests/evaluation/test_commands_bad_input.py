"""Bad input: one line that names the file or case and the cure, exit code 2, and nothing written."""

from pathlib import Path

import numpy as np
import pytest
import SimpleITK

from tests.commands import run
from tests.evaluation import made_folders as made

FIRST = "prediction/case_00.nii.gz"
SECOND = "prediction/case_01.nii.gz"


def emptied(folder):
    return lambda study: [path.unlink() for path in (study / folder).iterdir()]


def moved(*names):
    return lambda study: [
        (study / old).rename(study / f"{old.removesuffix('.nii.gz')}_moved.nii.gz") for old in names
    ]


def wrote(name, values, **options):
    return lambda study: made.write_map(study / name, values, **options)


def said(text, name="reference/dataset.json"):
    return lambda study: (study / name).write_text(text)


def blanked(study):
    for path in study.glob("*/case_*"):
        made.write_map(path, made.bars(0, organ=0))
    (study / "reference" / "dataset.json").unlink()


def join_two(study):
    SimpleITK.WriteImage(
        SimpleITK.JoinSeries([SimpleITK.GetImageFromArray(made.bars(4))] * 2), str(study / FIRST)
    )


DIRECTION = (0.8, -0.6, 0, 0.6, 0.8, 0, 0, 0, 1)

#: What is done to a study of two cases, and words of the line; {} is its folder.
FOLDERS = {
    "empty reference": (
        emptied("reference"),
        ["{}/reference", "must hold label maps", "Check the path"],
    ),
    "empty prediction": (
        emptied("prediction"),
        ["{}/prediction", "must hold label maps", "Check the path"],
    ),
    "no reference": (moved("reference"), ["{}/reference", "must be a folder"]),
    "no prediction": (moved("prediction"), ["{}/prediction", "must be a folder"]),
    "other names": (
        moved(FIRST, SECOND),
        ["case_00.nii.gz", "case_00_moved.nii.gz", "Name the predictions"],
    ),
    "a missing prediction": (
        lambda study: (study / FIRST).unlink(),
        ["case_00", "{}/prediction", "--missing worst"],
    ),
    "a case twice": (
        wrote("prediction/case_00.nrrd", made.bars(4)),
        ["case_00.nii.gz", "case_00.nrrd", "Remove one"],
    ),
    "shape": (
        wrote(FIRST, made.bars(4)[:7]),
        ["{}/" + FIRST, "shape", "(8, 8, 8)", "(8, 8, 7)", "resample it"],
    ),
    "spacing": (
        wrote(FIRST, made.bars(4), spacing=(1, 1, 2.5)),
        [FIRST, "spacing", "(1, 1, 1)", "(1, 1, 2.5)"],
    ),
    "origin": (
        wrote(FIRST, made.bars(4), origin=(0, 0, 3)),
        [FIRST, "origin", "(0, 0, 0)", "(0, 0, 3)"],
    ),
    "direction": (
        wrote(FIRST, made.bars(4), direction=DIRECTION),
        [FIRST, "direction", "0.8", "0.6"],
    ),
    "unknown reference value": (
        wrote("reference/case_01.nii.gz", made.bars(4) * 4),
        ["{}/reference/case_01.nii.gz", "4, 8", "--dataset-json"],
    ),
    "unknown predicted value": (
        wrote(SECOND, made.bars(4) * 4),
        ["{}/" + SECOND, "4, 8", "--dataset-json"],
    ),
    "fractions": (
        wrote(FIRST, made.bars(4) * 0.7, dtype=np.float32),
        ["{}/" + FIRST, "0.7", "nearest neighbour"],
    ),
    "four axes": (join_two, ["{}/" + FIRST, "8, 8, 8, 2"]),
    "damaged": (said("no label map", FIRST), ["{}/" + FIRST, "Write it again"]),
    "only background": (blanked, ["only background", "Check the folder"]),
    "half a dataset.json": (said("{"), ["{}/reference/dataset.json", "must be JSON", "Correct it"]),
    "a list": (said("[]"), ["{}/reference/dataset.json", "must be a mapping"]),
    "nothing": (said("{}"), ["{}/reference/dataset.json", "`labels`", "Add it"]),
    "only background as a label": (
        said('{"labels": {"background": 0}}'),
        ["at least one foreground label"],
    ),
    "an empty region": (
        said('{"labels": {"one": []}}'),
        ["dataset.json", "must be lists of values"],
    ),
    "a region with the background": (
        said('{"labels": {"background": [0, 0], "left": [0, 1], "organ": 2}}'),
        ["without the background, 0, to be scored", "(0, 1) for 'left'", "dataset.json"],
    ),
    "a label that is ignored": (
        said('{"labels": {"tumour": 1, "organ": 2, "ignore": 2}}'),
        ["dataset.json", "(2,) for 'organ' and 2 for 'ignore'", "Correct it"],
    ),
    "an ignored background": (
        said('{"labels": {"tumour": 1, "organ": 2, "ignore": 0}}'),
        ["dataset.json", "`ignore` neither 0 nor", "Correct it"],
    ),
    "two values to ignore": (
        said('{"labels": {"tumour": 1, "ignore": [3, 2]}}'),
        ["dataset.json", "`ignore` has one", "[3, 2] for 'ignore'"],
    ),
    "names as values": (
        said('{"labels": {"1": "tumour"}}'),
        ["dataset.json", "'tumour'", "Correct dataset.json"],
    ),
    "a value of 1.5": (
        said('{"labels": {"tumour": 1.5}}'),
        ["dataset.json", "1.5", "Correct dataset.json"],
    ),
    "an infinite value": (
        said('{"labels": {"tumour": Infinity}}'),
        ["dataset.json", "inf", "Correct dataset.json"],
    ),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_unusable_folders_are_refused(study, kind):
    damage, words = FOLDERS[kind]
    damage(study)
    made.check_refused(
        made.run_evaluate(study), study, *(word.replace("{}", str(study), 1) for word in words)
    )


def test_folder_without_permission_is_refused_in_one_line(study, monkeypatch):
    def refuse(path, iterdir=Path.iterdir):
        if path.name == "reference":
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    made.check_refused(made.run_evaluate(study), study, "Permission denied", study / "reference")


def cases_by(by):
    return ("--cases", "table.csv", "--by", by)


def required(requirement):
    return (*cases_by("centre"), "--require", requirement)


#: Options that are refused before a label map is read, and words of the line.
OPTIONS = [
    (("--metrics", "dice,dise"), ["dise", "hd95"]),
    (("--metrics", " , "), ["at least one metric", "Choose from"]),
    (
        ("--metrics", "dice,pq"),
        ["`--metrics` must come with instances", "got pq", "--instances LABEL"],
    ),
    (("--empty", "zero"), ["'--empty'", "undefined", "brats", "zero"]),
    (("--missing", "skip"), ["'--missing'", "worst", "skip"]),
    (("--failure", "hd95>20"), ["must be about a metric that is computed"]),
    (("--nsd-tolerance-mm", "0"), ["`--nsd-tolerance-mm`", "millimetres"]),
    (("--nsd-tolerance-mm", "nan"), ["`--nsd-tolerance-mm`", "millimetres"]),
    (("--dataset-json", "none.json"), ["none.json", "Check the path"]),
    (("--require-file", "none.txt"), ["none.txt", "a requirement per line"]),
    (("--cases", "none.csv"), ["none.csv", "Write a table"]),
    (
        ("--instances", "tumor"),
        ["`--instances` must be labels, got tumor", "Choose from: tumour, organ"],
    ),
    (("--match", "overlap"), ["`--match` must come with labels", "--instances LABEL"]),
    (
        ("--instances", "*", "--match", "iou:2"),
        ["`--match` must have an IoU above 0 and up to 1, got 'iou:2'"],
    ),
    (("--instances", "*", "--connectivity", "8"), ["`--connectivity` must be 6, 18 or 26, got 8"]),
    (
        ("--instances", "tumour", "--require", "label=organ metric=lesion_f1 mean>=0.3"),
        ["must name a reported label, not 'organ'", "Choose from: tumour"],
    ),
    (("--by", "centre"), ["`--by` must come with a case table", "centre", "--cases"]),
    (
        ("--by", "auto:colour"),
        ["must name a known attribute, got 'auto:colour'. Choose from: auto:size"],
    ),
    (("--by", "auto:contrast"), ["must come with images for auto:contrast", "Add --images FOLDER"]),
    (
        ("--by", "auto:noise", "--images", "nowhere"),
        ["must have an image for every case, got none for 'case_0"],
    ),
    (cases_by("center"), ["center", "centre, age", "Choose from"]),
    (cases_by("age:0,10"), ["case_01", "Widen the edges"]),
    (cases_by("age:q3"), ["3 different numbers", "Ask for fewer"]),
    (cases_by(""), ["`--by`", "Choose from"]),
    (cases_by("all"), ["the name of all cases", "Rename the column"]),
    (
        (*cases_by("centre"), "--reference-stratum", "D"),
        ["`--reference-stratum` must be", "Choose from: A, B, all."],
    ),
    (
        ("--cases", "table.csv", "--patient", "what"),
        ["`--patient` must be a column of the case table, got 'what'"],
    ),
    (
        ("--cases", "table.csv", "--patient", "who"),
        ["`who` must have an entry for every case, got none for case_01"],
    ),
    (
        ("--patient-score", "worst"),
        ["`--patient-score` must come with the column of the patients", "with --patient"],
    ),
    (required("centre=C p5>=0.7"), ["centre=C", "'C'", "A, B"]),
    (required("label=liver p5>=0.7"), ["'liver'", "tumour, organ"]),
    (required("metric=hd95 p75<=3"), ["'hd95'", "--metrics"]),
    (required("p5_low>=0.7"), ["p5_low", "intervals"]),
    (
        ("--metrics", "dice,iou", "--failure", "iou<0.5", "--require", "n_failed<=5"),
        ["must be about iou, by which cases fail", "Write metric=iou"],
    ),
    (required("p5"), ["condition", "Write, for example"]),
    (("--cases", "lacking.csv"), ["lacking.csv", "case_01", "Add the row"]),
    (("--cases", "misspelt.csv"), ["none for case_01 (other rows: case_1)", "ame the cases"]),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS, ids=lambda value: " ".join(value)[:50])
def test_unusable_option_is_refused_before_reading(study, monkeypatch, options, words):
    columns = {"centre": ["A", "B"], "age": [5, 70], "who": ["p", ""], "all": ["x", "y"]}
    made.write_cases(study, **columns).rename(study / "table.csv")
    (study / "lacking.csv").write_text("case,centre\ncase_00,A\n")
    (study / "misspelt.csv").write_text("case,centre\ncase_00,A\ncase_1,B\n")
    (study / FIRST).write_text("no label map")
    monkeypatch.chdir(study)
    made.check_refused(made.run_evaluate(study, *options), study, *words)


@pytest.mark.parametrize(("n_wrong", "n_named"), [(2, 2), (9, 5)])
def test_files_with_values_of_no_label_are_named_together(tmp_path, n_wrong, n_named):
    study = made.write_study(tmp_path, shifts=(0,) * 9)
    files = [study / "prediction" / f"case_{n:02}.nii.gz" for n in range(n_wrong)]
    for file in files:
        made.write_map(file, 4 * made.bars(4))

    refused = made.run_evaluate(study)
    made.check_refused(refused, study, "must list all values, got 4, 8 in")
    said = "".join(refused.output.split())
    # Where all are wrong, nobody waits for the last.
    assert sum(str(file) in said for file in files) == n_named


def test_a_label_is_known_without_dataset_json_once_it_is_read(tmp_path):
    study = made.write_study(tmp_path, shifts=(0, 1), dataset_json=False)
    assert made.run_evaluate(study, "--require", "label=1 min>=0.7").exit_code == 0

    refused = made.run_evaluate(study, "--require", "label=7 min>=0.7", out="other")
    made.check_refused(refused, study, "'7'", "1, 2", out="other")
    (study / FIRST).write_text("no label map")
    refused = made.run_evaluate(study, "--require", "site=A p5>=0.7", out="other")
    made.check_refused(refused, study, "'site'", "--by site", out="other")


def test_model_folders_without_validation_or_with_a_case_twice_are_refused(study):
    model = study / "Trainer__Plans__2d"
    command = ("evaluate", study / "reference", model, "-o", study / "out")
    (model / "fold_0").mkdir(parents=True)
    made.check_refused(run(*command), study, model, "--val")
    for fold in (0, 1):
        made.write_map(model / f"fold_{fold}" / "validation" / "case_00.nii.gz", made.bars(4))
    made.check_refused(run(*command), study, "case_00", "one fold")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Evaluations out and joined, of other labels, and the folder other, of a summary.json that is
    none."""
    study = made.write_study(tmp_path_factory.mktemp("evaluated"), shifts=(0, 1))
    made.run_evaluate(study)
    made.write_dataset_json(study / "reference", {"background": 0, "both": [1, 2]})
    made.run_evaluate(study, out="joined")
    (study / "other").mkdir()
    (study / "other" / "summary.json").write_text('{"mean": {}}')
    return study


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("out", ["NAME=FOLDER", "'out'"]),
        ("=out", ["NAME=FOLDER"]),
        ("ERM=", ["NAME=FOLDER"]),
        ("ERM=out ERM=out", ["ERM", "twice"]),
        ("ERM=out", ["two methods", "baseline"]),
        ("ERM=out DRO=reference", ["summary.json", "reference", "nnunet-dro evaluate"]),
        ("ERM=out DRO=none", ["summary.json", "none"]),
        ("ERM=out DRO=other", ["summary.json", "other", "Evaluate again"]),
        ("A=out B=joined", ["same labels", "both", "dataset.json"]),
        ("A=out B=out --by centre", ["centre"]),
        ("A=out B=out --margin -1", ["`--margin` must be 0 or more"]),
        (
            "A=out B=out --require pathology=rare#p5>=0.7",
            ["about a statistic of comparison.csv, not 'p5'"],
        ),
    ],
)
def test_unusable_evaluations_are_refused(evaluated, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(evaluated)
    arguments = (word.replace("#", " ") for word in arguments.split())
    made.check_refused(run("compare", *arguments, "-o", tmp_path / "out"), tmp_path, *words)


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"format": "nnunet-dro evaluation 99"}', b"\xff\xfe", None]
)
def test_report_of_what_is_no_evaluation_is_refused(tmp_path, content):
    folder = tmp_path / "out"
    folder.mkdir()
    if content is not None:
        (folder / "summary.json").write_bytes(content)

    made.check_refused(run("report", folder), tmp_path, folder, "valuate", out="none")

    assert made.names_in(folder) == ["summary.json"] * (content is not None)


def test_report_of_images_that_are_not_there_is_refused(study):
    made.run_evaluate(study)
    before = made.contents(study / "out")

    made.check_refused(
        run("report", study / "out", "--images", study / "none"), study, "none", files=before
    )

    assert made.contents(study / "out") == before
