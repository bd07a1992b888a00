"""Reading label maps: the fast reader against SimpleITK's, every format, and files that cannot be
used."""

import gzip
import itertools
import json
import os
import re
import struct

import nibabel
import numpy as np
import pytest
import SimpleITK
import tifffile
from PIL import Image
from scipy.spatial.transform import Rotation

from nnunet_dro.evaluation.scoring.grid import Grid, onto
from nnunet_dro.evaluation.scoring.itk import read_with_itk
from nnunet_dro.evaluation.scoring.label_maps import read_label_map
from nnunet_dro.evaluation.scoring.nifti import UnusualNiftiError, read_nifti
from nnunet_dro.evaluation.scoring.readers import Reader
from tests.evaluation.made_folders import write_map

VALUES = np.random.default_rng(0).integers(0, 100, (5, 6, 7))


def oblique_affine():
    affine = np.eye(4)
    affine[:3, :3] = Rotation.from_euler("XYZ", [10, -25, 40], degrees=True).as_matrix() * [
        0.7,
        1.1,
        3,
    ]
    affine[:3, 3] = [12, -40, 7.5]
    return affine


AFFINES = {
    "identity": np.eye(4),
    "oblique": oblique_affine(),
    "flipped": np.array([[-2.0, 0, 0, 90], [0, 2, 0, -126], [0, 0, 2, -72], [0, 0, 0, 1]]),
    "left-handed": np.array([[1.0, 0, 0, 1], [0, 0, 2, 3], [0, 3, 0, 4], [0, 0, 0, 1]]),
}


def write_nifti(path, values, affine, *, codes=(1, 1), dtype=np.uint8, kind=nibabel.Nifti1Image):
    image = kind(values.transpose().astype(dtype), affine, dtype=dtype)
    image.set_qform(affine, codes[0])
    image.set_sform(affine, codes[1])
    nibabel.save(image, path)


@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
@pytest.mark.parametrize("codes", [(1, 1), (1, 0), (0, 1), (0, 0)])
@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_nifti_is_read_as_simpleitk_reads_it(tmp_path, affine, codes, ending):
    path = tmp_path / f"a{ending}"
    write_nifti(path, VALUES, affine, codes=codes)

    values, grid = read_nifti(path, Reader.ITK)

    expected_values, expected_grid = read_with_itk(path)

    assert np.array_equal(values, expected_values)
    assert np.array_equal(values, VALUES)
    assert grid.affine == pytest.approx(expected_grid.affine, abs=1e-4)
    assert grid.spacing == pytest.approx(expected_grid.spacing, abs=1e-5)


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize(
    "dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
)
def test_every_integer_type_is_read(tmp_path, dtype, kind):
    values = VALUES.astype(dtype) * (1 if dtype in (np.uint8, np.int8) else 300)
    write_nifti(tmp_path / "a.nii.gz", values, np.eye(4), dtype=dtype, kind=kind)

    label_map = read_label_map(tmp_path / "a.nii.gz")

    assert label_map.values.dtype == dtype
    assert np.array_equal(label_map.values, values)


@pytest.mark.parametrize("ending", [".nii.gz", ".nii", ".nrrd", ".mha"])
def test_formats_with_geometry_agree(tmp_path, ending):
    turned = (0, 1, 0, -1, 0, 0, 0, 0, 1)
    write_map(
        tmp_path / f"a{ending}",
        VALUES,
        spacing=(0.5, 0.75, 2),
        origin=(-10, 20, 30),
        direction=turned,
    )

    label_map = read_label_map(tmp_path / f"a{ending}")

    assert np.array_equal(label_map.values, VALUES)
    assert label_map.grid.spacing == pytest.approx((2, 0.75, 0.5))

    expected = np.array([[0, 0.75, 0, -10], [-0.5, 0, 0, 20], [0, 0, 2, 30], [0, 0, 0, 1]])
    assert label_map.grid.affine == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("ending", [".nii.gz", ".nii"])
def test_a_voxel_size_in_single_precision_is_the_one_that_was_meant(tmp_path, ending):
    write_map(tmp_path / f"a{ending}", VALUES, spacing=(0.3, 0.7421875, 0.1))

    # Ten voxels of 0.30000001 mm would be more than 3 mm.
    assert read_label_map(tmp_path / f"a{ending}").grid.spacing == (0.1, 0.7421875, 0.3)


@pytest.mark.parametrize("ending", [".png", ".tif", ".tiff", ".bmp"])
def test_pictures_are_planes_without_geometry(tmp_path, ending):
    SimpleITK.WriteImage(
        SimpleITK.GetImageFromArray(VALUES[0].astype(np.uint8)), str(tmp_path / f"a{ending}")
    )
    label_map = read_label_map(tmp_path / f"a{ending}")

    assert np.array_equal(label_map.values, VALUES[:1])
    assert label_map.grid.affine is None
    assert label_map.grid.spacing == (1, 1, 1)
    assert np.isnan(label_map.grid.voxel_ml)


def test_a_map_of_bits_has_ones_and_a_unit_of_length_is_heeded(tmp_path, monkeypatch):
    tifffile.imwrite(tmp_path / "bits.tiff", VALUES[0] > 0, photometric="miniswhite")
    assert np.array_equal(read_label_map(tmp_path / "bits.tiff").values, VALUES[:1] > 0), (
        "white may be 0"
    )

    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)  # PIL refuses larger pictures
    SimpleITK.WriteImage(
        SimpleITK.GetImageFromArray(VALUES[0].astype(np.uint8)), str(tmp_path / "large.png")
    )

    assert np.array_equal(read_label_map(tmp_path / "large.png").values, VALUES[:1])

    monkeypatch.undo()
    for ending in ("png", "tif"):
        Image.fromarray(VALUES[0] > 0).save(tmp_path / f"bits.{ending}")
        assert np.array_equal(read_label_map(tmp_path / f"bits.{ending}").values, VALUES[:1] > 0)
    write_nifti(tmp_path / "a.nii", VALUES, AFFINES["oblique"])
    image = nibabel.load(tmp_path / "a.nii")
    image.header.set_xyzt_units("micron")
    nibabel.save(image, tmp_path / "micron.nii")
    _, expected = read_with_itk(tmp_path / "micron.nii")

    assert read_nifti(tmp_path / "micron.nii")[1].affine == pytest.approx(expected.affine, abs=1e-6)
    assert read_nifti(tmp_path / "a.nii")[1].spacing == pytest.approx(
        1000 * np.array(expected.spacing), rel=1e-5
    )


def test_tiff_takes_its_spacing_from_the_file_beside(tmp_path):
    SimpleITK.WriteImage(
        SimpleITK.GetImageFromArray(VALUES.astype(np.uint16)), str(tmp_path / "a.tif")
    )
    (tmp_path / "a.json").write_text(json.dumps({"spacing": [4, 2, 1]}))

    assert read_label_map(tmp_path / "a.tif").grid.spacing == (4, 2, 1)

    (tmp_path / "a.json").write_text(json.dumps({"spacing": "wide"}))
    with pytest.raises(ValueError, match=r"a\.json"):
        read_label_map(tmp_path / "a.tif")


def test_unusual_files_are_read_as_simpleitk_reads_them(tmp_path):
    write_nifti(tmp_path / "a.nii", VALUES, np.eye(4))
    content = (tmp_path / "a.nii").read_bytes()
    (tmp_path / "b.nii.gz").write_bytes(gzip.compress(content[:400]) + gzip.compress(content[400:]))

    with (
        (tmp_path / "c.nii.gz").open("wb") as stored,
        gzip.GzipFile("a long name.nii", "wb", fileobj=stored) as file,
    ):
        file.write(content)

    for name in ("b.nii.gz", "c.nii.gz"):
        assert np.array_equal(read_label_map(tmp_path / name).values, VALUES)

    # Scaled integers, which the fast reader scales, and voxels that begin in the header.
    (tmp_path / "scaled.nii.gz").write_bytes(
        gzip.compress(content_with(tmp_path / "a.nii", 112, "<f", 1.0000001))
    )
    (tmp_path / "b.nii").write_bytes(content_with(tmp_path / "a.nii", 108, "<f", 0))

    with pytest.raises(UnusualNiftiError):
        read_nifti(tmp_path / "b.nii")
    assert np.array_equal(read_label_map(tmp_path / "scaled.nii.gz").values, VALUES)

    write_nifti(tmp_path / "a.nii", VALUES, np.eye(4), dtype=np.float32)
    (tmp_path / "b.nii").write_bytes(content_with(tmp_path / "a.nii", 112, "<2f", 2.0, 3.0))

    values = read_label_map(tmp_path / "b.nii").values

    assert np.array_equal(values, 2 * VALUES + 3)
    assert np.array_equal(values, read_with_itk(tmp_path / "b.nii")[0])


def content_with(path, offset, form, *values):
    content = bytearray(path.read_bytes())
    struct.pack_into(form, content, offset, *values)
    return bytes(content)


def as_big_endian(values, dtype, kind):
    header = (nibabel.Nifti2Header if kind is nibabel.Nifti2Image else nibabel.Nifti1Header)(
        endianness=">"
    )
    header.set_data_dtype(f">{dtype}")
    return kind(values.transpose().astype(f">{dtype}"), oblique_affine(), header)


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
def test_big_endian_files_are_read_as_little_endian_ones(tmp_path, dtype, kind):
    nibabel.save(as_big_endian(VALUES, dtype, kind), tmp_path / "big.nii.gz")
    write_nifti(tmp_path / "little.nii.gz", VALUES, oblique_affine(), dtype=dtype, kind=kind)

    big, little = (read_label_map(tmp_path / f"{name}.nii.gz") for name in ("big", "little"))

    assert big.values.dtype.isnative
    assert np.array_equal(big.values, VALUES)
    assert big.grid.affine == pytest.approx(little.grid.affine, abs=1e-4)


@pytest.mark.parametrize("name", ["nan", "inf"])
@pytest.mark.parametrize(
    "stored", ["f4.nii.gz", "f8.nii", "scaled.nii", "big-endian.nii.gz", "f4.nrrd", "f4.mha"]
)
def test_a_voxel_that_is_no_number_is_never_background(tmp_path, stored, name):
    values = VALUES.astype(np.float64)
    values[2, 3, 4] = float(name)
    path = tmp_path / stored
    if stored.endswith((".nrrd", ".mha")):
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(values.astype(np.float32)), str(path))
    elif stored.startswith("big"):
        nibabel.save(as_big_endian(values, "f4", nibabel.Nifti1Image), path)
    else:
        write_nifti(
            path, values, np.eye(4), dtype=np.float64 if stored.startswith("f8") else np.float32
        )

    if stored.startswith("scaled"):
        path.write_bytes(content_with(path, 112, "<f", 2.0))

    with pytest.raises(
        ValueError, match=rf"^`path` must hold integers, got {name} in '.*{stored}'.*0 where"
    ):
        read_label_map(path)


def test_values_a_rounding_error_from_integers_are_accepted(tmp_path):
    write_nifti(tmp_path / "a.nii.gz", VALUES + 0.0009, np.eye(4), dtype=np.float32)
    write_nifti(tmp_path / "b.nii.gz", VALUES + 0.002, np.eye(4), dtype=np.float32)

    assert np.array_equal(read_label_map(tmp_path / "a.nii.gz").values, VALUES)
    with pytest.raises(ValueError, match=r"integers, got .*b\.nii\.gz"):
        read_label_map(tmp_path / "b.nii.gz")


def damaged(tmp_path):
    write_nifti(
        tmp_path / "whole.nii.gz", np.random.default_rng(0).integers(0, 9, (20, 20, 20)), np.eye(4)
    )
    write_nifti(tmp_path / "whole.nii", VALUES, np.eye(4))
    content = (tmp_path / "whole.nii.gz").read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    nibabel.save(
        nibabel.Nifti1Image(np.zeros((3, 4, 5, 2), np.uint8), np.eye(4)), tmp_path / "four.nii.gz"
    )
    return {
        "cut.nii.gz": content[:-200],
        "cut_early.nii.gz": content[:100],
        "flipped_bits.nii.gz": bytes(flipped),
        "empty.nii.gz": b"",
        "empty.nrrd": b"",
        "text.nii.gz": b"this is no image",
        "text.nii": b"this is no image" * 100,
        "text.png": b"this is no image",
        "no_voxels.nii": content_with(tmp_path / "whole.nii", 42, "<h", 0),
        "nan_in_sform.nii": content_with(tmp_path / "whole.nii", 280, "<f", float("nan")),
        "cut.nii": (tmp_path / "whole.nii").read_bytes()[:-10],
        "four.nii.gz": (tmp_path / "four.nii.gz").read_bytes(),
    }


def test_files_that_cannot_be_used_are_named(tmp_path):
    for name, content in damaged(tmp_path).items():
        path = tmp_path / "bad" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
            read_label_map(path)
        assert "\n" not in str(caught.value)


def test_four_axes_and_colours_are_refused(tmp_path):
    image = SimpleITK.GetImageFromArray(np.zeros((2, 3, 4, 5), np.uint8), isVector=False)
    SimpleITK.WriteImage(image, str(tmp_path / "a.nrrd"))

    with pytest.raises(ValueError, match=r"4 axes .*a\.nrrd"):
        read_label_map(tmp_path / "a.nrrd")

    nibabel.save(
        nibabel.Nifti1Image(VALUES.transpose().astype(np.uint8)[..., None], np.eye(4)),
        tmp_path / "a.nii.gz",
    )
    assert read_label_map(tmp_path / "a.nii.gz").values.shape == VALUES.shape

    colours = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    SimpleITK.WriteImage(
        SimpleITK.GetImageFromArray(colours, isVector=True), str(tmp_path / "a.png")
    )

    with pytest.raises(ValueError, match=r"one channel.*a\.png"):
        read_label_map(tmp_path / "a.png")


def test_labels_with_transparency_are_to_be_written_as_one_channel(tmp_path):
    labels = Image.fromarray(np.eye(4, dtype=np.uint8))
    labels.putalpha(255)
    labels.save(tmp_path / "a.png")

    with pytest.raises(ValueError, match=r"one channel.*a\.png"):
        read_label_map(tmp_path / "a.png")


def test_layers_of_a_segmentation_are_no_greys_even_where_they_are_equal(tmp_path):
    layer = SimpleITK.GetImageFromArray(VALUES.astype(np.uint8))
    path = tmp_path / "a.seg.nrrd"
    SimpleITK.WriteImage(SimpleITK.Compose([layer, layer]), str(path))
    with pytest.raises(
        ValueError, match=r"one layer of labels, got 2 in .*a\.seg\.nrrd.*label map"
    ):
        read_label_map(path)

    SimpleITK.WriteImage(layer, str(path))
    assert (read_label_map(path).values == VALUES).all()


def test_dicom_of_another_name_is_called_what_it_is(tmp_path):
    # ITK knows it by its content, whatever its name.
    plane = SimpleITK.GetImageFromArray(VALUES[:1].astype(np.uint8))
    SimpleITK.WriteImage(plane, str(tmp_path / "a.dcm"))
    (tmp_path / "a.dcm").rename(tmp_path / "a.nrrd")
    with pytest.raises(ValueError, match=r"a\.nrrd', which is DICOM\. Name DICOM segmentations"):
        read_label_map(tmp_path / "a.nrrd")


def test_unreadable_file_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.nii.gz"
    write_nifti(path, VALUES, np.eye(4))

    if os.geteuid() == 0:
        # Root may read everything.
        def refuse(self, *_, **__):
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(type(path), "open", refuse)
    else:
        path.chmod(0)

    with pytest.raises(PermissionError, match=r"a\.nii\.gz.*permissions"):
        read_label_map(path)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("flips", list(itertools.product((1, -1), repeat=3)))
def test_map_stored_in_another_order_is_turned(order, flips):
    reference = Grid(VALUES.shape, oblique_affine())
    # The same voxels as another program might store them: axes in another order, some counted
    # backwards.
    stored = VALUES.transpose(order)[tuple(slice(None, None, flip) for flip in flips)]
    affine = np.eye(4)
    for axis in range(3):
        column = 2 - order[axis]
        affine[:3, 2 - axis] = flips[axis] * reference.affine[:3, column]
        if flips[axis] < 0:
            affine[:3, 3] += (VALUES.shape[order[axis]] - 1) * reference.affine[:3, column]

    affine[:3, 3] += reference.affine[:3, 3]

    assert np.array_equal(onto(stored, Grid(stored.shape, affine), reference), VALUES)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda a: a * [2, 1, 1, 1], "spacing"),
        (lambda a: a * [1.02, 1, 1, 1], "spacing"),
        (lambda a: a + np.outer([1, 0, 0, 0], [0, 0, 0, 1]), "origin"),
        (lambda a: a * [-1, 1, 1, 1], "direction"),
        (lambda a: oblique_affine() @ np.diag([1 / 0.7, 1 / 1.1, 1 / 3, 1]), "direction"),
    ],
)
def test_another_grid_is_refused(change, what):
    with pytest.raises(ValueError, match=what):
        onto(VALUES, Grid(VALUES.shape, change(np.eye(4))), Grid(VALUES.shape, np.eye(4)))


def test_another_shape_is_refused_even_if_the_corner_is_the_same():
    with pytest.raises(ValueError, match=r"shape \(7, 6, 5\), got \(7, 6, 4\)"):
        onto(VALUES[:4], Grid(VALUES[:4].shape, np.eye(4)), Grid(VALUES.shape, np.eye(4)))

    affine = oblique_affine()
    stored = affine.astype(np.float32).astype(np.float64).round(5)

    assert onto(VALUES, Grid(VALUES.shape, stored), Grid(VALUES.shape, affine)) is not None


@pytest.mark.parametrize("ending", [".mha", ".gipl", ".nrrd", ".nii.gz", ".nii"])
def test_an_ending_in_capitals_is_read(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    write_map(path, VALUES)
    before = read_label_map(path)

    after = read_label_map(path.rename(tmp_path / f"A{ending.upper()}"))

    np.testing.assert_array_equal(after.values, before.values)
    np.testing.assert_array_equal(after.grid.affine, before.grid.affine)
