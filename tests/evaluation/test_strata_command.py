"""`nnunet-dro strata` and `--by auto:...`: tables and strata that nobody recorded."""

import json
import shutil

import nibabel
import numpy as np
import pandas as pd
import pytest
import SimpleITK

from nnunet_dro import fingerprints
from nnunet_dro.evaluation.stratifying.images import find_channels
from nnunet_dro.files.case_table import read_cases
from tests.commands import done, refused, run
from tests.evaluation.made_folders import (
    names_in,
    run_evaluate,
    strata_of,
    summary_of,
    write_dataset_json,
    write_map,
)

COMPUTED = [
    "size_ml",
    "components",
    "spacing_mm",
    "volume_ml",
    "contrast",
    "noise",
    "image_rarity",
]


@pytest.fixture
def study(tmp_path):
    """Seven cases, with larger tumours and noisier images from one to the next."""
    rng = np.random.default_rng(0)
    for n in range(7):
        values = np.zeros((6, 12, 12), np.uint8)
        values[1:3, 2 : 4 + n, 2:6] = 1
        grey = rng.normal(100, 2 + n, values.shape) + 40 * values + np.arange(12) * 8
        spacing = (1.0, 1.0, 3.0 if n % 2 else 5.0)
        write_map(tmp_path / "reference" / f"case_{n:02}.nii.gz", values, spacing=spacing)
        write_map(tmp_path / "prediction" / f"case_{n:02}.nii.gz", values, spacing=spacing)
        write_map(
            tmp_path / "images" / f"case_{n:02}_0000.nii.gz",
            grey,
            spacing=spacing,
            dtype=np.float32,
        )
    write_dataset_json(tmp_path / "reference")
    return tmp_path


def run_strata(root, *options, out="cases.csv"):
    return run(
        "strata", root / "images", root / "reference", "-o", root / out, "--jobs", 2, *options
    )


def test_a_case_table_for_any_dataset(study):
    result = done(run_strata(study))

    assert result.stdout.splitlines()[-1] == str(study / "cases.csv")
    assert "0.072 to 0.32" in result.stdout

    table = read_cases(study / "cases.csv")
    assert list(table.columns) == ["case", *COMPUTED]

    sizes = [8 * (2 + n) * (3 if n % 2 else 5) / 1000 for n in range(7)]
    assert table["size_ml"].astype(float).tolist() == pytest.approx(sizes)
    assert table["spacing_mm"].tolist() == ["5", "3", "5", "3", "5", "3", "5"]
    assert table["noise"].astype(float).is_monotonic_increasing

    done(
        run_evaluate(
            study, "--cases", study / "cases.csv", "--by", "spacing_mm", "--by", "noise:q2"
        )
    )


def write_images(folder, n, shape, *, rare=()):
    """Images of smooth slopes, and of noise where they are rare, with a label each."""
    rng = np.random.default_rng(0)
    for i in range(n):
        values = np.zeros(shape, np.uint8)
        values[:, 2:4, 2:4] = 1
        grey = np.arange(shape[-1]) * 10.0 + rng.normal(0, 50 if i in rare else 1, shape)
        write_map(folder / "reference" / f"case_{i:02}.nii.gz", values)
        image = folder / "images" / f"case_{i:02}_0000.nii.gz"
        write_map(image, grey, dtype=np.float32)


def test_rare_images_have_the_largest_rarity_in_tables_and_evaluations(tmp_path):
    write_images(tmp_path, 20, (3, 12, 12), rare=(4, 17))

    done(run_strata(tmp_path))

    table = read_cases(tmp_path / "cases.csv").set_index("case")
    rarity = table["image_rarity"].astype(float)
    assert set(rarity.nlargest(2).index) == {"case_04", "case_17"}
    assert rarity.mean() == pytest.approx(1, rel=1e-3)

    # It is that of the fingerprints which training looks at.
    channels = [
        nibabel.load(path).get_fdata().T[np.newaxis]
        for path in sorted((tmp_path / "images").glob("*.nii.gz"))
    ]
    expected = fingerprints.rarity_of_images([fingerprints.fingerprint(i) for i in channels])
    assert rarity.tolist() == pytest.approx(expected.tolist(), rel=1e-3)

    shutil.copytree(tmp_path / "reference", tmp_path / "prediction")
    write_dataset_json(tmp_path / "reference")
    images = ("--images", tmp_path / "images")
    done(run_evaluate(tmp_path, "--by", "auto:rarity:q2", *images))
    assert strata_of(tmp_path / "out")["n"].loc["auto:rarity"].tolist() == [10, 10]


def test_the_rarity_sees_every_channel(tmp_path):
    write_images(tmp_path, 20, (3, 12, 12))
    rng = np.random.default_rng(1)
    for i in range(20):
        second = rng.normal(0, 1, (3, 12, 12)) + (i == 6) * np.arange(12) * 30
        write_map(tmp_path / "images" / f"case_{i:02}_0001.nii.gz", second, dtype=np.float32)

    done(run_strata(tmp_path))

    rarity = read_cases(tmp_path / "cases.csv").set_index("case")["image_rarity"].astype(float)
    assert rarity.idxmax() == "case_06"


def test_an_image_without_a_number_has_one_channel(tmp_path):
    for name in ("A.png", "A_0001.png", "B_0000.png", "B_0001.png"):
        (tmp_path / name).touch()
    assert [len(find_channels(tmp_path, case)) for case in "AB"] == [1, 2]


def test_images_of_different_channels_have_no_rarity_and_a_note(tmp_path, caplog):
    write_images(tmp_path, 4, (3, 12, 12))
    shutil.copy(
        tmp_path / "images" / "case_02_0000.nii.gz", tmp_path / "images" / "case_02_0001.nii.gz"
    )

    done(run_strata(tmp_path))

    assert list(read_cases(tmp_path / "cases.csv").columns) == ["case", *COMPUTED[:-1]]
    assert "numbers of channels: 1 of case_03, 2 of case_02." in caplog.text

    shutil.copytree(tmp_path / "reference", tmp_path / "prediction")
    write_dataset_json(tmp_path / "reference")
    refused(
        run_evaluate(tmp_path, "--by", "auto:rarity", "--images", tmp_path / "images"),
        "`--by` must be computed from images of finite values, with as many channels in each",
    )


def test_json_files_beside_the_images(study, caplog):
    files = {
        "case_00_0000": {
            "Manufacturer": "ACME",
            "MagneticFieldStrength": 1.5,
            "PatientAge": "018M",
            "PatientSex": "F",
            "Other": [1],
        },
        "case_01": {"MagneticFieldStrength": "3", "PatientAge": 61, "PatientSex": None},
        "case_02": {"MagneticFieldStrength": "3T", "PatientAge": "61 y", "PatientSex": ["F"]},
        "case_03": {"Manufacturer": "NA", "MagneticFieldStrength": " ", "PatientAge": "n/a"},
    }
    for name, said in files.items():
        (study / "images" / f"{name}.json").write_text(json.dumps(said))

    assert run_strata(study).exit_code == 0

    table = read_cases(study / "cases.csv")
    assert list(table.columns) == [
        "case",
        *COMPUTED,
        "manufacturer",
        "field_strength_t",
        "sex",
        "age",
    ]

    assert table.iloc[:4, -4:].to_numpy().tolist() == [
        ["ACME", "1.5", "F", "1.5"],
        ["missing", "3", "missing", "61"],
        *[["missing"] * 4] * 2,
    ]
    unread = "missing: MagneticFieldStrength '3T' of case_02.json, PatientSex ['F'] of case_02.json"
    assert f"{unread}, PatientAge '61 y' of case_02.json. Write" in caplog.text


def write_dicom(path, **tags):
    image = SimpleITK.GetImageFromArray(np.zeros((1, 8, 8), np.int16))
    for tag, value in {"0008|0060": "MR", **tags}.items():
        image.SetMetaData(tag, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    SimpleITK.WriteImage(image, str(path))
    # A letter of Latin-1, which is no UTF-8.
    path.write_bytes(path.read_bytes().replace(b"ACME", b"Acm\xe9"))


def test_dicom_files(study):
    tags = {
        "0008|0070": "ACME",
        "0008|1090": "Prisma ",
        "0018|0087": "3",
        "0018|0050": "1.20",
        "0010|1010": "045Y",
    }
    for n in range(7):
        write_dicom(
            study / "dicom" / f"case_{n:02}" / "series" / "1.dcm",
            **tags,
            **{"0010|0040": "FM"[n % 2]},
        )
    (study / "dicom" / "case_00" / "0-report.txt").write_text("no image")
    (study / "images" / "case_00_0000.json").write_text(json.dumps({"Manufacturer": "other"}))

    done(run_strata(study, "--dicom", study / "dicom"))

    assert read_cases(study / "cases.csv").loc[:1, "manufacturer":].to_numpy().tolist() == [
        ["Acmé", "Prisma", "3", "1.2", sex, "45"] for sex in "FM"
    ]


def test_columns_and_rows_of_a_case_table_are_kept(study):
    names = [f"case_{n:02}" for n in range(8)]
    pd.DataFrame({"case": names[::-1], "centre": list("ABCDEFGH")}).to_csv(
        study / "given.csv", index=False
    )

    done(run_strata(study, "--cases", study / "given.csv"))

    table = read_cases(study / "cases.csv")

    assert list(table.columns) == ["case", "centre", *COMPUTED]
    assert table["case"].tolist() == names[::-1]
    # The first row is of another case, of the test set for instance.
    assert table.iloc[0].tolist() == ["case_07", "A", *["missing"] * len(COMPUTED)]
    assert "missing" not in table.iloc[1:].to_numpy()


def test_strata_that_nobody_recorded(study):
    by = (
        "--by",
        "auto:size",
        "--by",
        "auto:spacing",
        "--by",
        "auto:spacing,auto:size:q2",
        "--by",
        "auto:noise:q2",
    )

    done(
        run_evaluate(
            study,
            *by,
            "--images",
            study / "images",
            "--require",
            "auto:spacing=5 label=tumour n>=4",
        )
    )

    strata = strata_of(study / "out")

    # 80, 72, 160, 120, 240, 168 and 320 voxels of 1 mm3.
    thirds = {"q1: 0.072 to 0.08": 2, "q2: 0.12 to 0.168": 3, "q3: 0.24 to 0.32": 2}

    assert strata["n"].loc["auto:size"].to_dict() == thirds
    assert strata["n"].loc["auto:spacing"].to_dict() == {"3": 3, "5": 4}
    assert strata["n"].loc["auto:noise"].tolist() in ([3, 4], [4, 3])
    assert strata["n"].loc["auto:spacing,auto:size"].sum() == 7

    assert any(
        note.startswith("auto:size is the volume of all labels") and "cut into thirds" in note
        for note in summary_of(study / "out")["notes"]
    )
    assert "auto:noise is the standard deviation" in (study / "out" / "report.md").read_text()


def wrote(name, content):
    def write(study):
        (study / name).parent.mkdir(parents=True, exist_ok=True)
        (study / name).write_text(content)

    return write


def other_shape(study):
    write_map(study / "images" / "case_02_0000.nii.gz", np.zeros((6, 12, 13)))


def table_with_noise(study):
    wrote("given.csv", "case,noise\n" + "".join(f"case_{n:02},low\n" for n in range(7)))(study)
    other_shape(study)  # names are looked at before images


@pytest.mark.parametrize(
    ("break_it", "option", "words"),
    [
        (
            wrote("images/case_03_0000.json", "{"),
            "",
            ("`images` must have readable JSON files", "case_03_0000.json"),
        ),
        (
            other_shape,
            "",
            ("`images` must have the shape of the label maps", "case_02_0000.nii.gz"),
        ),
        (
            lambda study: (study / "images" / "case_02_0000.nii.gz").unlink(),
            "",
            ("`images` must have an image for every case, got none for 'case_02'",),
        ),
        (
            lambda study: write_dicom(study / "dicom" / "case_00" / "1.dcm"),
            "--dicom",
            ("`--dicom` must hold a folder for every case", "dicom/case_01', which does not exist"),
        ),
        (
            wrote("dicom/case_00", "no"),
            "--dicom",
            ("`--dicom` must hold a folder for every case", "dicom/case_00', which is a file"),
        ),
        (
            wrote("dicom/case_00/1.dcm", "no"),
            "--dicom",
            ("`--dicom` must have a readable DICOM image", "case_00"),
        ),
        (
            table_with_noise,
            "--cases",
            ("`--cases` must have other columns than those computed, got noise",),
        ),
        (
            wrote("given.csv", "case,centre\ncase_00,A\n"),
            "--cases",
            ("got none for case_01", "given.csv"),
        ),
        (
            lambda study: (study / "cases.csv").mkdir(),
            "",
            ("`--output` must be a new file", "Name another."),
        ),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(study, break_it, option, words):
    break_it(study)
    before = names_in(study)
    given = {"--dicom": ("--dicom", study / "dicom"), "--cases": ("--cases", study / "given.csv")}

    refused(run_strata(study, *given.get(option, ())), *words)

    assert names_in(study) == before


def test_an_existing_table_is_replaced_only_when_asked(study):
    (study / "cases.csv").write_text("old")
    assert run_strata(study).exit_code == 2
    assert (study / "cases.csv").read_text() == "old"
    assert run_strata(study, "--overwrite").exit_code == 0
    assert run_strata(study, out="cases.xlsx").exit_code == 2


def test_images_that_fit_by_the_other_rule_only_are_named(study, caplog):
    moved = np.diag([1.0, 1, 5, 1])
    moved[:3, 3] = 10, -20, 5
    files = {"reference/case_00.nii.gz": 1, "images/case_00_0000.nii.gz": 0}
    for file, qform_code in files.items():
        image = nibabel.load(study / file)
        image = nibabel.Nifti1Image(np.asarray(image.dataobj), None, dtype=np.uint8)
        image.set_qform(np.diag([1.0, 1, 5, 1]), qform_code)
        image.set_sform(moved, 2)
        nibabel.save(image, study / file)

    note = "fit only where the headers of both are read as the other"
    done(run_strata(study))
    (message,) = [record.message for record in caplog.records]
    assert f"{note} of ITK and nibabel reads them, which was done: case_00." in message

    out = study / "out"
    (study / "prediction" / "case_00.nii.gz").write_bytes(
        (study / "reference" / "case_00.nii.gz").read_bytes()
    )
    done(run_evaluate(study, "--by", "auto:contrast", "--images", study / "images"))
    assert any(note in line for line in summary_of(out)["notes"])
    caplog.clear()
    done(run("report", out, "--images", study / "images"))
    assert {record.message for record in caplog.records} <= {
        message.replace("case_00", "case_00_0000.nii.gz")
    }
    assert caplog.records
