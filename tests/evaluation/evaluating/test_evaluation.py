"""Evaluations against nnU-Net's own numbers, and on a cluster."""

import warnings
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.evaluating.evaluation import evaluate
from tests.commands import done, run
from tests.evaluation import made_folders as made

KINDS = {
    "labels": {"background": 0, "a": 1, "b": 2, "c": 3},
    "regions": {"background": 0, "whole": [1, 2, 3], "core": [3, 1], "one": [2], "plain": 3},
    "ignore": {"background": 0, "a": 1, "b": 2, "ignore": 3},
    "regions with ignore": {"background": 0, "whole": [1, 2], "core": [2], "ignore": 3},
}


def write_random(root, labels, n_cases=4):
    """Random maps; the last case holds only background, the one before has an empty reference."""
    rng = np.random.default_rng(0)
    ignored = labels.get("ignore")
    for n in range(n_cases):
        reference, prediction = rng.integers(0, 4, (2, 6, 7, 8))
        reference[:2] = 0
        if ignored is not None:
            prediction[prediction == ignored] = 0
        if n >= n_cases - 2:
            reference[:] = 0
        if n == n_cases - 1:
            prediction[:] = 0
        made.write_pair(root, f"case_{n:02}.nii.gz", reference, prediction, spacing=(0.5, 1, 3))
    made.write_dataset_json(root, labels)


def labels_as_nnunet_has_them(labels):
    values = [values for name, values in labels.items() if name not in ("background", "ignore")]
    return [tuple(value) if isinstance(value, list) else value for value in values]


@pytest.mark.parametrize("kind", list(KINDS))
def test_dice_is_nnunets_own(tmp_path, kind):
    from nnunetv2.evaluation.evaluate_predictions import compute_metrics
    from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

    labels = KINDS[kind]
    write_random(tmp_path, labels)

    scores = evaluate(
        tmp_path / "reference", tmp_path / "prediction", metrics=("dice", "iou"), n_resamples=0
    ).scores

    expected = []
    for n in range(4):
        files = (
            str(tmp_path / folder / f"case_{n:02}.nii.gz") for folder in ("reference", "prediction")
        )
        found = compute_metrics(
            *files, SimpleITKIO(), labels_as_nnunet_has_them(labels), labels.get("ignore")
        )
        expected += [
            [m[key] for key in ("Dice", "IoU", "n_ref", "n_pred", "TP")]
            for m in found["metrics"].values()
        ]

    columns = ["dice", "iou", "n_reference", "n_prediction", "n_intersection"]

    np.testing.assert_allclose(
        scores[columns].to_numpy(float), np.array(expected, float), atol=1e-12, rtol=0
    )
    assert np.isnan(expected).any()
    assert scores["dice"].between(0.1, 0.9).any()


@pytest.fixture
def write_summary(monkeypatch):
    """nnU-Net's own evaluation of folders; in this process, because starting others takes seconds."""
    import multiprocessing
    from multiprocessing.pool import ThreadPool

    from nnunetv2.evaluation.evaluate_predictions import compute_metrics_on_folder
    from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

    class Context:
        Pool = ThreadPool

    def write(reference, prediction, path, regions_or_labels, ignore=None):
        with monkeypatch.context() as patched, warnings.catch_warnings():
            patched.setattr(multiprocessing, "get_context", lambda method: Context)
            # nnU-Net's, of undefined values.
            warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
            folders = (str(reference), str(prediction))
            compute_metrics_on_folder(
                *folders, str(path), SimpleITKIO(), ".nii.gz", regions_or_labels, ignore, 1
            )

    return write


@pytest.mark.parametrize("kind", list(KINDS))
def test_nnunets_summary_json_gives_the_scores_of_the_folders(tmp_path, kind, write_summary):
    labels = KINDS[kind]
    write_random(tmp_path, labels)
    folders = (tmp_path / "reference", tmp_path / "prediction")
    summary = tmp_path / "prediction" / "summary.json"
    write_summary(*folders, summary, labels_as_nnunet_has_them(labels), labels.get("ignore"))
    options = ("--metrics", "dice,iou,sensitivity,precision", "--bootstrap", 0)

    for out, prediction in (("of_folders", folders[1]), ("of_summary", summary)):
        done(run("evaluate", folders[0], prediction, "-o", tmp_path / out, *options))

    expected, scores = (made.scores_of(tmp_path / out) for out in ("of_folders", "of_summary"))

    volumes = ["reference_ml", "prediction_ml"]

    pd.testing.assert_frame_equal(
        scores.drop(columns=volumes), expected.drop(columns=volumes), rtol=0, atol=1e-12
    )
    assert scores[volumes].isna().all(axis=None)
    assert expected[volumes].notna().all(axis=None)


def test_labels_of_a_summary_json_without_dataset_json_are_its_keys(tmp_path, write_summary):
    write_random(tmp_path, KINDS["labels"], n_cases=3)
    (tmp_path / "dataset.json").unlink()
    summary = tmp_path / "summary.json"

    write_summary(tmp_path / "reference", tmp_path / "prediction", summary, [2, 10, (1, 3)])

    assert evaluate(tmp_path / "reference", summary, n_resamples=0).labels == ("1+3", "2", "10")


def test_cases_without_any_score_are_named(tmp_path):
    """One has no label, and of one every voxel is to be ignored, whatever is predicted."""
    made.write_pair(tmp_path, "scored.nii.gz", made.bars(3), made.bars(3))
    made.write_pair(tmp_path, "empty.nii.gz", made.bars(0), made.bars(0))
    made.write_pair(tmp_path, "ignored.nii.gz", np.full_like(made.bars(0), 2), made.bars(3))
    made.write_dataset_json(tmp_path, {"background": 0, "tumour": 1, "ignore": 2})
    folders = (tmp_path / "reference", tmp_path / "prediction")

    (note,) = evaluate(*folders, n_resamples=0).notes

    assert note == (
        "2 cases without any score, because neither map has a label (voxels to ignore do not "
        "count): empty, ignored."
    )
    assert "ignored" not in " ".join(evaluate(*folders, empty="one", n_resamples=0).notes)


def test_strata_of_every_kind_of_by(tmp_path):
    made.write_study(
        tmp_path, centre=["A", "A", "B", "B"], kind=["x", "y", "x", "x"], age=[5, 17, 18, 70]
    )

    options = ("--by", "centre", "--by", "centre,kind", "--by", "age:0,18,90", "--by", "age:q2")

    done(made.run_evaluate(tmp_path, *options))

    assert made.strata_of(tmp_path / "out")["mean"].to_dict() == {
        ("all", "all"): 0.5625,
        ("centre", "A"): 0.875,
        ("centre", "B"): 0.25,
        ("centre,kind", "A,x"): 1.0,
        ("centre,kind", "A,y"): 0.75,
        ("centre,kind", "B,x"): 0.25,
        ("age", "0 to 18"): 0.875,
        ("age", "18 to 90"): 0.25,
        ("age:q2", "q1: 5 to 17"): 0.875,
        ("age:q2", "q2: 18 to 70"): 0.25,
    }
    assert made.strata_of(tmp_path / "out")["n"].sum() == 5 * 4
    assert made.scores_of(tmp_path / "out")["centre"].tolist() == ["A"] * 4 + ["B"] * 4


def test_empty_rules_decide_what_an_absent_label_gets(tmp_path):
    made.write_pair(tmp_path, "neither.nii.gz", made.bars(0), made.bars(0))
    made.write_pair(tmp_path, "predicted.nii.gz", made.bars(0), made.bars(3))
    made.write_dataset_json(tmp_path)

    found = {}

    for rule in ("undefined", "one", "brats", "diagonal"):
        made.run_evaluate(tmp_path, "--empty", rule, "--metrics", "dice,hd95", out=rule)
        scores = made.scores_of(tmp_path / rule)
        tumour = scores[scores["label"] == "tumour"].set_index("case")[["dice", "hd95"]]
        found[rule] = tumour.astype(object).where(tumour.notna(), None).to_numpy().tolist()

    assert found == {
        "undefined": [[None, None], [0, None]],
        "one": [[1, 0], [0, None]],
        "brats": [[1, 0], [0, 374]],
        "diagonal": [[None, None], [0, pytest.approx(7 * 3**0.5)]],
    }

    counts = {"label": "tumour", "n_empty_references": 2, "n_false_positives": 1}
    volumes = {"mean_ml": 0.003, "max_ml": 0.003, "max_case": "predicted"}

    assert made.summary_of(tmp_path / "one")["false_positives"][0] == counts | volumes


@pytest.mark.parametrize(
    ("rule", "known"), [("empty", "undefined, one, brats, diagonal"), ("missing", "error, worst")]
)
def test_unknown_rules_are_refused_from_python_too(rule, known):
    with pytest.raises(ValueError, match=f"`{rule}` must be one of {known}, got 'zero'"):
        evaluate("reference", "prediction", **{rule: "zero"})


def test_every_metric_of_a_bar_moved_by_one_voxel(tmp_path):
    made.write_study(tmp_path, shifts=(1,))
    metrics = "dice, iou,sensitivity,precision,hd95,hd95_pooled,hd,assd,nsd"

    made.run_evaluate(tmp_path, "--metrics", metrics, "--nsd-tolerance-mm", 0.5)

    row = made.scores_of(tmp_path / "out").iloc[0]

    # Of four border voxels each, one of either lies 1 mm from the other bar.
    expected = {
        "dice": 0.75,
        "iou": 0.6,
        "sensitivity": 0.75,
        "precision": 0.75,
        "hd": 1,
        "assd": 0.25,
        "nsd": 0.75,
    }

    assert row[list(expected)].to_dict() == pytest.approx(expected)
    assert row["hd95"] == pytest.approx(0.85)
    assert "tolerance 0.5 mm" in made.summary_of(tmp_path / "out")["definitions"]["nsd"]


def test_cases_are_sorted_and_labels_in_the_order_of_dataset_json(tmp_path):
    for n in (3, 1, 2, 0):
        made.write_pair(tmp_path, f"{n}.png", [[1, 2], [0, 3]], [[1, 2], [0, 3]])
    made.write_dataset_json(tmp_path, {"background": 0, "z": 1, "a": 3, "m": 2})

    scores = evaluate(tmp_path / "reference", tmp_path / "prediction", n_resamples=0, jobs=2).scores

    assert scores["case"].tolist() == [case for case in "0123" for _ in range(3)]
    assert scores["label"].tolist() == ["z", "a", "m"] * 4


def test_a_stratum_may_be_called_all(tmp_path):
    made.write_study(tmp_path, (0, 0, 4, 4), centre=["all", "all", "B", "B"])
    done(made.run_evaluate(tmp_path, "--by", "centre"))

    assert made.strata_of(tmp_path / "out")[["n", "mean"]].T.to_dict("list") == {
        ("centre", "all"): [2, 1],
        ("centre", "B"): [2, 0],
        ("all", "all"): [4, 0.5],
    }


def test_summary_has_the_digests_of_all_contents(tmp_path):
    made.write_study(tmp_path)
    cases = made.write_cases(tmp_path, centre=["A", "A", "B", "B"])
    made.run_evaluate(tmp_path, "--cases", cases)
    first = made.summary_of(tmp_path / "out")["inputs"]

    digest = sha256((tmp_path / "prediction" / "case_01.nii.gz").read_bytes()).hexdigest()

    assert first["files_sha256"]["case_01"][1] == digest
    assert first["case_table_sha256"] == sha256(cases.read_bytes()).hexdigest()
    assert (
        first["dataset_json_sha256"]
        == sha256((tmp_path / "reference" / "dataset.json").read_bytes()).hexdigest()
    )
    assert digest not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert first["predictions_sha256"] in (tmp_path / "out" / "report.html").read_text(
        encoding="utf-8"
    )

    made.write_map(tmp_path / "prediction" / "case_01.nii.gz", made.bars(3))
    made.run_evaluate(tmp_path, "--cases", cases, out="again")
    second = made.summary_of(tmp_path / "again")["inputs"]

    assert second["predictions_sha256"] != first["predictions_sha256"]
    assert second["references_sha256"] == first["references_sha256"]
    assert second["prediction_names_sha256"] == first["prediction_names_sha256"]


def test_findings_name_the_reference_stratum(tmp_path):
    made.write_study(
        tmp_path, [0] * 9 + [2] * 9 + [4] * 9, centre=["A"] * 9 + ["B"] * 9 + ["C"] * 9
    )

    result = done(
        made.run_evaluate(tmp_path, "--by", "centre", "--reference-stratum", "B", bootstrap=50)
    )

    text = " ".join(result.output.split())

    assert "Tumour is worst in C (centre)" in text
    assert "The reference stratum is B with 50.0 %: a gap of 50.0 points" in text

    run("report", tmp_path / "out")
    assert "The reference stratum is B" in (tmp_path / "out" / "report.md").read_text(
        encoding="utf-8"
    )
