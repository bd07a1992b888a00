"""The errors of volumes: equal to SimpleITK's physical sizes, and what they are where a label or a
unit is missing."""

import numpy as np
import pandas as pd
import pytest
import SimpleITK as sitk  # noqa: N813

from nnunet_dro.evaluation import METRICS, Labels, Scoring, score_case, worst_strata
from nnunet_dro.evaluation.scoring.failures import failed_rows
from tests.commands import done, run
from tests.evaluation import made_folders as made

VOLUMES = tuple(name for name, metric in METRICS.items() if metric.on_volumes)
ALL_VOLUMES = ("--metrics", ",".join(VOLUMES))


def rows_of(folder, label):
    scores = made.scores_of(folder)
    return scores[scores["label"] == label].set_index("case")


def physical_ml(path, value):
    """The volume of a label, by ITK's filter for the shapes of labels."""
    shapes = sitk.LabelShapeStatisticsImageFilter()
    shapes.Execute(sitk.ReadImage(str(path)))
    return shapes.GetPhysicalSize(value) / 1000 if shapes.HasLabel(value) else 0.0


def test_errors_are_those_of_itks_physical_sizes(tmp_path):
    rng = np.random.default_rng(0)
    for n in range(6):
        for folder in ("reference", "prediction"):
            values = rng.choice(3, size=(6, 9, 11), p=rng.dirichlet([2, 1, 1]))
            values[values == n % 3] = 0
            spacing = tuple(np.random.default_rng(n).uniform(0.5, 4, size=3).tolist())
            made.write_map(tmp_path / folder / f"case_{n:02}.nii.gz", values, spacing=spacing)
    made.write_dataset_json(tmp_path)

    made.run_evaluate(tmp_path, *ALL_VOLUMES)

    n_empty = 0

    for label, value in {"tumour": 1, "organ": 2}.items():
        for case, row in rows_of(tmp_path / "out", label).iterrows():
            paths = [tmp_path / folder / f"{case}.nii.gz" for folder in ("reference", "prediction")]
            reference, prediction = (physical_ml(path, value) for path in paths)
            error = prediction - reference
            relative = error / reference if reference else np.nan
            expected = (
                error,
                abs(error),
                relative,
                abs(relative),
                np.nan if reference else prediction,
            )
            np.testing.assert_allclose(
                row[list(VOLUMES)].astype(float), expected, rtol=1e-6, atol=1e-12
            )
            n_empty += not reference

    assert n_empty


@pytest.mark.parametrize(
    ("empty", "in_neither"),
    [("undefined", np.nan), ("diagonal", np.nan), ("one", 0.0), ("brats", 0.0)],
)
def test_volumes_of_labels_that_a_map_lacks(empty, in_neither):
    reference, prediction = np.zeros((2, 4, 8, 8), int)
    reference[0], prediction[1] = 1, 2
    labels = Labels({"missed": (1,), "invented": (2,), "neither": (3,)})

    rows = score_case(
        reference, prediction, labels, Scoring(VOLUMES, empty=empty), spacing=(2, 5, 5)
    )

    found = {row["label"]: [row[name] for name in VOLUMES] for row in rows}

    np.testing.assert_allclose(found["missed"], [-3.2, 3.2, -1, 1, np.nan])
    np.testing.assert_allclose(found["invented"], [3.2, 3.2, np.nan, np.nan, 3.2])
    np.testing.assert_allclose(found["neither"], [0, 0, in_neither, in_neither, 0])


def test_without_a_voxel_size_volumes_are_counted_in_pixels(tmp_path):
    columns = np.broadcast_to(np.arange(8), (8, 8))
    made.write_pair(tmp_path, "a.png", columns < 2, columns < 3)

    requirements = (
        "--require",
        "metric=volume_error mean<=8",
        "--require",
        "metric=volume_error max<=8ml",
    )

    result = done(made.run_evaluate(tmp_path, *ALL_VOLUMES, *requirements), 4)

    assert "volumes are in pixels: write the bound without ml" in result.stderr
    assert rows_of(tmp_path / "out", "1").loc["a", list(VOLUMES)].tolist()[:4] == [8, 8, 0.5, 0.5]
    assert (
        "The images have no voxel size: volumes are in pixels (px)."
        in made.summary_of(tmp_path / "out")["notes"]
    )
    assert "Volume error (px)" in result.stdout
    assert "mean 8.000 px is <= 8" in str(made.summary_of(tmp_path / "out")["requirements"])


def test_a_missing_prediction_is_as_bad_as_one_that_fills_the_image(tmp_path):
    made.write_study(tmp_path, shifts=(0, 1))
    made.write_map(tmp_path / "reference" / "case_01.nii.gz", made.bars(0))

    (tmp_path / "prediction" / "case_01.nii.gz").unlink()

    assert made.run_evaluate(tmp_path, *ALL_VOLUMES, "--missing", "worst").exit_code == 0

    image = 8**3 / 1000
    tumour, organ = (
        rows_of(tmp_path / "out", label).loc["case_01", list(VOLUMES)]
        for label in ("tumour", "organ")
    )

    np.testing.assert_allclose(tumour.astype(float), [image, image, np.nan, np.nan, image])
    np.testing.assert_allclose(
        organ.astype(float), [image - 0.002, image - 0.002, 255, 255, np.nan]
    )


def test_the_worst_stratum_of_a_signed_error_is_farthest_from_zero():
    named = {"attribute": "site", "label": "tumour", "metric": "volume_error"}
    named |= {"n": 20, "n_undefined": 0}
    strata = pd.DataFrame(
        [named | {"stratum": s, "mean": mean} for s, mean in (("A", 2.0), ("B", -5.0), ("C", 0.5))]
    )

    (row,) = worst_strata(strata).to_dict("records")

    assert (row["statistic"], row["worst_stratum"], row["best_stratum"], row["gap"]) == (
        "mean",
        "B",
        "C",
        4.5,
    )
    assert METRICS["volume_error"].goodness(np.array([-5.0, 2.0])).tolist() == [-5, -2]

    scores = pd.DataFrame({"n_reference": [4, 4, 0, 0], "n_prediction": [0, 4, 3, 0]})
    scores["false_positive_volume"], scores["relative_volume_error"] = (
        [np.nan, np.nan, 3, 0],
        [-1, 0, np.nan, np.nan],
    )

    assert not failed_rows(scores, "false_positive_volume")["left_out"].any()
    assert failed_rows(scores, "relative_volume_error")["left_out"].tolist() == [
        False,
        False,
        True,
        False,
    ]


@pytest.fixture(scope="module")
def two_methods(tmp_path_factory):
    """Evaluations of errors of -1, 0 and 1 ml with voxels of 1 ml, and of no error; the organ is
    invented once."""
    root = tmp_path_factory.mktemp("volumes")
    for method in ("ERM", "DRO"):
        for n, error in enumerate((-1, 0, 1)):
            pair = (
                made.bars(4, organ=2 * (n > 1)),
                made.bars(4 + error * (method == "ERM"), organ=2 * (n > 0)),
            )
            made.write_pair(root / method, f"case_{n:02}.nii.gz", *pair, spacing=(10,) * 3)
        assert made.run_evaluate(root / method, *ALL_VOLUMES, out="out").exit_code == 0
    return root


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("label=1 metric=absolute_volume_error max<=1ml", 0, ""),
        (
            "label=1 metric=absolute_volume_error mean<=0.5ml",
            3,
            "mean 0.667 ml is not <= 0.5ml (3 cases)",
        ),
        ("label=1 metric=volume_error min >= -1 ml", 0, ""),
        ("label=1 metric=relative_volume_error max<=25%", 0, ""),
        ("label=1 metric=relative_volume_error max<=20%", 3, "max 25.0% is not <= 20%"),
        ("label=1 metric=relative_volume_error min>=-0.25", 0, ""),
        ("label=1 metric=absolute_relative_volume_error max<=150%", 0, ""),
        (
            "label=2 metric=absolute_relative_volume_error max<=1%",
            3,
            "it leaves out 1 case in which the label was",
        ),
        ("label=2 metric=false_positive_volume max<=2ml", 0, ""),
        (
            "label=2 metric=false_positive_volume max<=1",
            3,
            "max 2.000 ml is not <= 1 (2 of 3 cases with a value)",
        ),
        (
            "label=1 metric=absolute_volume_error max<=1mm",
            2,
            "compare absolute_volume_error with ml, got",
        ),
        ("label=1 metric=absolute_volume_error max<=1%", 2, "Write 1ml."),
        ("label=1 metric=relative_volume_error max<=20", 2, "with a fraction from -1 to 1, got"),
        (
            "label=1 metric=relative_volume_error max<=1ml",
            2,
            "compare relative_volume_error with a fraction, got",
        ),
    ],
)
def test_requirements_on_volumes_have_units(two_methods, tmp_path, text, code, line):
    result = made.run_evaluate(
        two_methods / "ERM", *ALL_VOLUMES, "--require", text, out=tmp_path / "out"
    )
    assert (result.exit_code, line in result.stderr) == (code, True), result.stderr


@pytest.mark.parametrize("text", ["volume_error<-0.5", "volume_error>0.5"])
def test_failures_may_be_of_one_sign(two_methods, tmp_path, text):
    done(
        made.run_evaluate(
            two_methods / "ERM", *ALL_VOLUMES, "--failure", text, out=tmp_path / "out"
        )
    )
    assert made.strata_of(tmp_path / "out", "1", "volume_error")["n_failed"].tolist() == [1]


def test_comparisons_leave_signed_errors_out(two_methods, tmp_path):
    methods = [f"{name}={two_methods / name / 'out'}" for name in ("ERM", "DRO")]

    done(run("compare", *methods, "-o", tmp_path / "out", "--bootstrap", 0))

    table = made.read_csv(tmp_path / "out" / "comparison.csv")

    assert (
        set(table["metric"])
        == {name for name in VOLUMES if not METRICS[name].is_signed}
        < set(VOLUMES)
    )
    assert "Errors with a sign are not compared" in " ".join(
        made.summary_of(tmp_path / "out")["notes"]
    )

    row = table[(table["label"] == "1") & (table["metric"] == "absolute_volume_error")].iloc[0]
    assert (row["wins"], row["ties"], row["losses"]) == (2, 1, 0)
    assert row["mean_difference"] == pytest.approx(-2 / 3)

    page = (two_methods / "ERM" / "out" / "report.md").read_text()

    assert "Volume error (ml)" in page
    assert "Relative volume error (%)" in page
    assert "−1.00" in page
    assert "nearer to 0 is better" in (two_methods / "ERM" / "out" / "report.html").read_text()
