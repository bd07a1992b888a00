import base64
import gzip
import itertools

import nibabel
import numpy as np
import pytest
import SimpleITK

from nnunet_dro.evaluation.report.gallery import Choice
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.viewer.volumes import MB, crop, packed_volumes, shown_cases

from .made import SHAPE, ball, write, write_cases

LABELS = Labels({"organ": (1, 2), "tumour": (2,)})


def read(packed):
    return nibabel.Nifti1Image.from_bytes(gzip.decompress(base64.b64decode(packed)))


def pack(root, case="case_00", *, labels=LABELS, wanted=("organ",), ending=".nii.gz", **options):
    files = (root / "reference" / f"{case}{ending}", root / "prediction" / f"{case}{ending}")
    return packed_volumes(
        [root / "images" / f"{case}_0000{ending}"], files, labels, wanted, **options
    )


def write_all(root, values, image=None, **options):
    """Write the same values as reference and prediction, and the image, which is the same unless it
    is given."""
    for name in ("reference/case_00", "prediction/case_00"):
        write(root / f"{name}.nii.gz", values, **options)
    write(root / "images" / "case_00_0000.nii.gz", values if image is None else image, **options)


def test_crop_holds_both_masks_with_a_margin():
    reference, prediction = (np.zeros((80, 90, 100), bool) for _ in range(2))
    reference[30:34, 40:50, 50:52] = True
    prediction[36, 40, 55] = True

    box, is_cut = crop(reference, prediction, (5.0, 1.0, 1.0), 10**9)

    # The least margin is 24 voxels of the finest spacing: 24 mm, which are 5 slices of 5 mm,
    # rounded up.
    assert box == (slice(25, 42), slice(16, 74), slice(26, 80))
    assert not is_cut

    mask = np.zeros((1, 600, 600), bool)
    mask[0, 150:450, 300] = True

    assert crop(mask, mask, (1.0, 1.0, 1.0), 10**9)[0] == (
        slice(0, 1),
        slice(90, 510),
        slice(240, 361),
    )

    empty = np.zeros((10, 20, 30), bool)
    assert crop(empty, empty, (1.0, 1.0, 1.0), 10**9) == (
        (slice(0, 10), slice(0, 20), slice(0, 30)),
        False,
    )

    mask = np.ones((1, 300, 3000), bool)
    prediction = mask.copy()
    prediction[0, 100, 2900] = False
    box, is_cut = crop(mask, prediction, (1.0, 1.0, 1.0), 10**9)

    assert box == (slice(0, 1), slice(0, 300), slice(952, 3000))
    assert is_cut


@pytest.mark.parametrize("most_voxels", [40**3, 10**3, 1])
def test_what_is_too_large_is_cut_around_the_largest_disagreement(most_voxels):
    reference = np.zeros((100, 100, 100), bool)
    reference[10:90, 10:90, 10:90] = True
    prediction = reference.copy()
    prediction[70:76, 20:26, 80:86] = False

    box, is_cut = crop(reference, prediction, (1.0, 1.0, 1.0), most_voxels)

    assert is_cut
    assert 0.5 * most_voxels < np.prod([part.stop - part.start for part in box]) <= most_voxels
    for part, (low, high) in zip(box, ((70, 76), (20, 26), (80, 86)), strict=True):
        assert part.start < high
        assert part.stop > low
    assert (reference != prediction)[box].any()


@pytest.mark.parametrize(
    "direction", [None, (0, 1, 0, -1, 0, 0, 0, 0, 1), (0.8, -0.6, 0, 0.6, 0.8, 0, 0, 0, -1)]
)
def test_volumes_are_the_stored_voxels_at_their_places(tmp_path, direction):
    reference = ball((12, 40, 30), 5, (60, 90, 70)).astype(np.uint8)
    image = np.arange(reference.size, dtype=np.int32).reshape(reference.shape) % 251
    write_all(tmp_path, reference, image, direction=direction)

    volumes = pack(tmp_path)

    assert not volumes.is_flat
    assert np.prod(volumes.shape) < reference.size / 2

    packed = read(volumes.reference)
    grey = read(volumes.channels[0])

    assert packed.shape == grey.shape == volumes.shape

    stored = SimpleITK.ReadImage(str(tmp_path / "reference" / "case_00.nii.gz"))
    assert (np.asarray(packed.dataobj) == 1).sum() == reference.sum()

    for index in itertools.islice(np.argwhere(np.asarray(packed.dataobj) == 1), 0, None, 50):
        # NIfTI counts to the right and to the front, ITK to the left and to the back.
        x, y, z = packed.affine[:3] @ [*index, 1] * (-1, -1, 1)
        assert stored.GetPixel(stored.TransformPhysicalPointToIndex((x, y, z))) == 1
    assert (grey.affine == packed.affine).all()
    assert grey.get_data_dtype() == np.uint8

    values = np.asarray(grey.dataobj)
    assert (values.min(), values.max()) == (0, 255)


def test_pictures_are_flat_with_their_rows_downwards(tmp_path):
    write_cases(tmp_path, shifts=(2,), shape=(50, 60), ending=".png")
    volumes = pack(tmp_path, ending=".png")

    assert volumes.is_flat
    assert volumes.shape == (60, 50, 1)

    stored = SimpleITK.GetArrayFromImage(
        SimpleITK.ReadImage(str(tmp_path / "prediction" / "case_00.png"))
    )
    assert (stored == np.asarray(read(volumes.prediction).dataobj)[:, :, 0].T).all()
    assert (np.diag(read(volumes.prediction).affine) == (-1, -1, 1, 1)).all()


def test_predictions_where_the_reference_is_ignored_are_left_out(tmp_path):
    write_cases(tmp_path, shifts=(4,))
    assert not pack(tmp_path).has_ignored
    assert pack(tmp_path) == pack(tmp_path), "the same case gives the same bytes"

    volumes = pack(tmp_path, labels=Labels({"organ": (1,)}, ignore=2))

    assert volumes.has_ignored

    reference, prediction = (
        np.asarray(read(v).dataobj) for v in (volumes.reference, volumes.prediction)
    )
    assert (prediction[reference == 2] == 0).all()
    assert (prediction > 0).any()


def test_other_labels_are_offered_if_they_are_there_as_a_whole(tmp_path):
    values = np.zeros((120, 120, 120), np.uint8)
    values[60:64, 60:64, 60:64] = 1
    values[60:64, 66:70, 60:64] = 2
    values[5:110, 80, 60] = 3
    write_all(tmp_path, values, spacing=(1, 1, 1))

    labels = Labels({"first": (2,), "second": (1,), "long": (3,), "absent": (4,), "region": (1, 3)})

    assert pack(tmp_path, labels=labels, wanted=["second"]).labels == {
        "second": (1,),
        "first": (2,),
    }

    found = pack(tmp_path, labels=labels, wanted=["long", "absent"]).labels
    assert list(found) == ["long", "absent", "first", "second", "region"]


def test_many_label_values_are_kept(tmp_path):
    values = np.zeros(SHAPE, np.uint16)
    values[10:20, 10:20, 10:20] = 700
    write_all(tmp_path, values)

    packed = read(pack(tmp_path, labels=Labels({"organ": (700,)})).reference)

    assert packed.get_data_dtype() == np.uint16
    assert set(np.unique(np.asarray(packed.dataobj))) == {0, 700}


CASES = ("case_00", "case_01", "case_02")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_cases(tmp_path_factory.mktemp("cases"), shifts=(2, 4, 6), n_channels=2)


def shown(folder, *, most_mb, cases=CASES, **options):
    choices = [Choice("all", "all", "organ", case, 0.5) for case in cases]
    files = {
        case: tuple(folder / kind / f"{case}.nii.gz" for kind in ("reference", "prediction"))
        for case in cases
    }
    return shown_cases(choices, folder / "images", files, LABELS, most_mb=most_mb, **options)


def test_channels_then_the_least_urgent_cases_go_until_it_fits(folder):
    seen = []
    found = shown(folder, most_mb=10, progress=lambda *n: seen.append(n))

    assert list(found.volumes) == list(CASES)
    assert [found.n_channels(case) for case in CASES] == [2, 2, 2]
    assert (found.left_out, found.only_first_channel) == ([], False)
    assert seen == [(1, 3), (2, 3), (3, 3)]

    room = found.n_bytes / MB
    found = shown(folder, most_mb=0.75 * room)

    assert list(found.volumes) == list(CASES)
    assert found.only_first_channel
    assert [found.n_channels(case) for case in CASES] == [1, 1, 1]
    assert found.n_bytes <= 0.75 * room * MB

    found = shown(folder, most_mb=0.4 * room + 1, frame_bytes=MB, cases=CASES[::-1])
    assert list(found.volumes) == ["case_02", "case_01"]
    assert found.left_out == ["case_00"]
    assert found.n_bytes <= 0.4 * room * MB

    found = shown(folder, most_mb=0.03)
    assert [(case, volumes.is_cut) for case, volumes in found.volumes.items()] == [
        ("case_00", True)
    ]
    assert found.n_bytes <= 0.03 * MB
