import re

import numpy as np
import pytest
import SimpleITK

from nnunet_dro.evaluation.report import evaluation_html, gallery, pictures_of
from nnunet_dro.evaluation.report.gallery import worst_cases
from tests.commands import done, run
from tests.evaluation.made_folders import (
    bars,
    run_evaluate,
    write_dataset_json,
    write_map,
    write_study,
)

from .made import evaluation_of, scores_of


def write(path, values, *, spacing=(1.0, 1.0, 1.0)):
    write_map(path, values, spacing=spacing, dtype=values.dtype)


def drawn(plane, which):
    """One of the outlines of a plane."""
    return dict(plane.outlines)[which]


def evaluation(n_cases=4, **options):
    return evaluation_of(*scores_of(n_cases, labels=("one", "two")), **options)


def pictured(folder, ending=".nii.gz", two=(2, 3), ignore=None, **options):
    """Pictures from a folder with the images, the references and the predictions of case_0000 to
    case_0003."""
    of_two = {"two": list(two)} if two else {}
    ignored = {} if ignore is None else {"ignore": ignore}
    write_dataset_json(folder, {"background": 0, "one": 1, **of_two, **ignored})
    cases = [f"case_{n:04d}" for n in range(4)]
    files = {
        case: [str(folder / f"{case}_{kind}{ending}") for kind in ("reference", "prediction")]
        for case in cases
    }
    about = {"inputs": {"files": files}, "options": {"dataset_json": str(folder / "dataset.json")}}
    return pictures_of(evaluation(about=about), folder, **options)


@pytest.fixture
def dataset(tmp_path):
    """Cases whose prediction of label 1 lacks one plane: z = 3, of a box of 2 x 3 x 4 voxels at
    (2..3, 5..7, 8..11)."""
    for n in range(4):
        case = f"case_{n:04d}"
        reference = np.zeros((10, 20, 24), dtype=np.uint8)
        reference[2:4, 5:8, 8:12] = 1
        reference[6:8, 12:16, 3:9] = 3
        prediction = reference.copy()
        prediction[3] = 0
        image = np.arange(reference.size, dtype=np.float32).reshape(reference.shape)
        for name, values in (("reference", reference), ("prediction", prediction)):
            write(tmp_path / f"{case}_{name}.nii.gz", values, spacing=(1, 2, 5))
        write(tmp_path / f"{case}_0000.nii.gz", image, spacing=(1, 2, 5))
    return tmp_path


def test_worst_cases_are_the_lowest_of_every_stratum(monkeypatch):
    given = evaluation(30)
    chosen = worst_cases(given, per_stratum=2)

    assert len(chosen) == 2 * 2 * 6

    scores = given.scores
    inside = scores[(scores["label"] == "two") & (scores["centre"] == "C")].sort_values("dice")
    names = [choice.case for choice in chosen if (choice.stratum, choice.label) == ("C", "two")]

    assert names == inside["case"].tolist()[:2]

    all_of_them = worst_cases(given, per_stratum=3)
    monkeypatch.setattr(gallery, "_MOST", 12)
    few = worst_cases(given, per_stratum=3)

    assert len(few) == 12
    assert {(c.attribute, c.stratum, c.label) for c in few} == {
        (c.attribute, c.stratum, c.label) for c in all_of_them
    }

    scores, strata = scores_of(3, labels=("one",))
    scores["dice"] = [np.nan, 0.5, np.nan]

    assert {choice.case for choice in worst_cases(evaluation_of(scores, strata))} == {"case_0001"}

    scores, strata = scores_of(10, labels=("one",), metrics=("dice", "hd95"))
    chosen = worst_cases(evaluation_of(scores, strata, ("hd95",)), per_stratum=1)

    assert scores.loc[scores["hd95"].idxmax(), "case"] in {choice.case for choice in chosen}


def test_planes_go_through_the_largest_disagreement(dataset):
    entry = next(e for e in pictured(dataset) if e.label == "one")
    axial, coronal, sagittal = entry.planes

    assert [plane.name for plane in entry.planes] == ["axial", "coronal", "sagittal"]
    # z = 3 is missing from the prediction: the axial plane shows the reference alone, 4 wide and 3
    # high.
    assert drawn(axial, "reference").endswith("h4v3h-4z")
    assert [name for name, _ in axial.outlines] == ["reference"]
    # The others show two planes of the reference, one of the prediction; superior is up, so the
    # lower one stays.
    assert re.sub(r"M\S+ \S+?(?=h)", "", drawn(coronal, "reference")) == "h4v2h-4z"
    assert re.sub(r"M\S+ \S+?(?=h)", "", drawn(coronal, "prediction")) == "h4v1h-4z"

    y_reference, y_prediction = (
        int(re.match(r"M\d+ (\d+)", path)[1]) for _, path in coronal.outlines
    )
    assert y_prediction == y_reference + 1
    assert sagittal.aspect == pytest.approx(sagittal.width * 2 / (sagittal.height * 5), abs=1e-3)
    assert axial.aspect == pytest.approx(axial.width * 1 / (axial.height * 2), abs=1e-3)


def test_voxels_to_ignore_are_no_disagreement(dataset):
    before = {
        entry.case: entry.planes for entry in pictured(dataset, two=(3,)) if entry.label == "two"
    }
    for path in dataset.glob("*_reference.nii.gz"):
        image = SimpleITK.ReadImage(str(path))
        image[:, :, 8] = 4
        SimpleITK.WriteImage(image, str(path))
        predicted = path.with_name(path.name.replace("reference", "prediction"))
        image[:, :, 8] = 3
        SimpleITK.WriteImage(image, str(predicted))

    after = pictured(dataset, two=(3,), ignore=4)

    assert {entry.case: entry.planes for entry in after if entry.label == "two"} == before


def test_pictures_of_a_case_in_several_strata_are_made_once(dataset):
    seen = []
    entries = pictured(dataset, progress=lambda *n: seen.append(n))

    assert len(entries) == len({(e.case, e.label) for e in entries})
    assert any(len(e.strata) > 1 for e in entries)
    assert seen[-1] == (len(entries), len(entries))

    html = evaluation_html(evaluation(), entries)
    assert html.count('class="picture"') == len(entries)
    assert "data:image/webp;base64," in html


def test_how_files_are_stored_does_not_change_the_pictures(dataset):
    plain = pictured(dataset)
    for path in dataset.glob("*_prediction.nii.gz"):
        SimpleITK.WriteImage(
            SimpleITK.Flip(SimpleITK.ReadImage(str(path)), (True, False, True)), str(path)
        )

    assert pictured(dataset) == plain

    for path in dataset.glob("*.nii.gz"):
        SimpleITK.WriteImage(
            SimpleITK.DICOMOrient(SimpleITK.ReadImage(str(path)), "ASR"), str(path)
        )
    both = (pictured(dataset), plain)
    turned, before = (
        [[plane.outlines for plane in entry.planes[:2]] for entry in entries] for entries in both
    )

    assert turned == before


def test_a_label_or_a_case_without_files_or_of_another_shape_is_named(dataset):
    with pytest.raises(
        ValueError, match="`labels` must have the values of every label, got none of 'two'"
    ):
        pictured(dataset, two=())

    renamed = (dataset / "case_0002_0000.nii.gz").rename(dataset / "other.nii.gz")
    with pytest.raises(
        FileNotFoundError,
        match=r"`images` must have an image for .* case, got none for 'case_0002'",
    ):
        pictured(dataset)

    renamed.rename(dataset / "case_0002_0000.nii.gz")
    # Nearly the same header is shown.
    write(
        dataset / "case_0000_0000.nii.gz",
        np.zeros((10, 20, 24), dtype=np.float32),
        spacing=(1, 2, 5.5),
    )

    assert pictured(dataset)

    write(dataset / "case_0000_0000.nii.gz", np.zeros((10, 20, 23), dtype=np.float32))
    with pytest.raises(
        ValueError, match=r"\(10, 20, 23\) in .*case_0000_0000.* and \(10, 20, 24\) in .*_reference"
    ):
        pictured(dataset)


def test_colour_pictures_have_one_plane(tmp_path):
    for n in range(4):
        label_map = np.zeros((30, 40), dtype=np.uint8)
        label_map[10:12, 20:23] = 1
        for kind in ("reference", "prediction"):
            write(tmp_path / f"case_{n:04d}_{kind}.png", label_map)
        colours = np.random.default_rng(n).integers(0, 255, (30, 40, 3), dtype=np.uint8)
        picture = SimpleITK.GetImageFromArray(colours, isVector=True)
        SimpleITK.WriteImage(picture, str(tmp_path / f"case_{n:04d}_0000.png"))

    plane = next(e for e in pictured(tmp_path, ".png") if e.label == "one").planes

    assert [(p.name, drawn(p, "reference") == drawn(p, "prediction")) for p in plane] == [
        ("", True)
    ]
    assert drawn(plane[0], "reference").endswith("h3v2h-3z")


def test_a_report_without_a_case_to_picture_says_so(tmp_path):
    root = write_study(tmp_path, shifts=(0, 0))
    for path in (*(root / "reference").glob("*.nii.gz"), *(root / "prediction").glob("*.nii.gz")):
        write_map(path, bars(0, organ=0))

    assert run_evaluate(root).exit_code == 0

    result = done(run("report", root / "out", "--images", root / "images"))
    assert result.stderr == "nnunet-dro: No pictures: no case has both a score and a prediction.\n"


def test_cases_without_a_prediction_take_no_place_among_the_pictures(tmp_path):
    root = write_study(tmp_path, shifts=(0, 1, 2, 4))
    for n in range(4):
        write(root / "images" / f"case_{n:02}_0000.nii.gz", bars(4).astype(np.float32))
    for n in (0, 2):
        (root / "prediction" / f"case_{n:02}.nii.gz").unlink()
    done(run_evaluate(root, "--missing", "worst"))
    done(run("report", root / "out", "--images", root / "images"))

    page = (root / "out" / "report.html").read_text()
    assert re.findall(r"<figcaption><b>(\w+)</b>, tumour", page) == ["case_03", "case_01"]
    assert "cases without one have no picture" in page
