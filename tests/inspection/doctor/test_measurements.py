import pandas as pd
import pytest

from nnunet_dro.inspection.doctor.examination import Measurements

SETTINGS = {"checkpoint": "a" * 8, "patches": 2, "prediction": True}


def row(case: str, loss: float = -0.123456789012345678):
    first = {"case": case, "set": "training", "seconds_patches": 0.1, "seconds_prediction": 0.25}
    losses = {"hardness": loss, "loss_1": loss, "loss_2": loss / 3}
    return {
        **first,
        **losses,
        "voxels_organ": 0.0,
        "contrast_organ": 0.5,
        "dice_organ": float("nan"),
    }


def make(folder, **changed):
    return Measurements(folder, SETTINGS | changed, ("organ",))


def test_rows_come_back_exactly(tmp_path):
    made = make(tmp_path / "new")
    for case in ("b", "a,1"):
        made.add(row(case))

    table = make(tmp_path / "new").table({"a,1": "validation", "b": "training"})

    pd.testing.assert_frame_equal(table, made.table({"a,1": "validation", "b": "training"}))
    assert table["loss_2"][0] == row("b")["loss_2"]
    assert table["set"].tolist() == ["validation", "training"]


def test_half_a_row_of_a_killed_run_is_dropped(tmp_path):
    made = make(tmp_path)
    made.add(row("a"))
    path = tmp_path / "doctor.csv"
    whole = path.read_text()

    path.write_text(whole + "b,training,0.1,0.2,-0.5")

    assert list(make(tmp_path).rows) == ["a"]
    assert path.read_text() == whole

    (tmp_path / "doctor.json").unlink()
    assert make(tmp_path).rows == {}, "a table without settings counts as none"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"checkpoint": "b"}, "another checkpoint"),
        ({"patches": 3}, r"another number of patches \(2, not 3\)"),
        ({"prediction": False}, "other predictions"),
    ],
)
def test_other_settings_are_refused_and_nothing_is_lost(tmp_path, changed, words):
    make(tmp_path).add(row("a"))
    before = (tmp_path / "doctor.csv").read_text()

    with pytest.raises(ValueError, match=words):
        make(tmp_path, **changed)
    assert (tmp_path / "doctor.csv").read_text() == before


@pytest.mark.parametrize("file", ["doctor.csv", "doctor.json"])
def test_damaged_files_are_refused(tmp_path, file):
    make(tmp_path).add(row("a"))
    (tmp_path / file).write_text((tmp_path / file).read_text().replace("2", "two"))

    with pytest.raises(ValueError, match=rf"`doctor.\w+` must .* got .*{tmp_path.name}"):
        make(tmp_path)
