"""The same map in every header, format and type: array, direction, voxel size and metrics are those
of nnU-Net's reader for the dataset, followed by a loop over voxels."""

import gzip
import itertools
import json
import struct
import zlib

import nibabel
import numpy as np
import pytest
import SimpleITK
import tifffile
from nnunetv2.imageio.reader_writer_registry import determine_reader_writer_from_dataset_json
from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO
from PIL import Image
from scipy.spatial.distance import cdist

from nnunet_dro.evaluation import Labels, Scoring
from nnunet_dro.evaluation.scoring.grid import Rules
from nnunet_dro.evaluation.scoring.instances import Instances
from nnunet_dro.evaluation.scoring.label_maps import read_label_map
from nnunet_dro.evaluation.scoring.nifti import read_nifti
from nnunet_dro.evaluation.scoring.readers import Reader
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles, score_pair
from nnunet_dro.evaluation.stratifying.images import read_image

SHAPE = (5, 6, 7)  # (z, y, x)

QFORM = np.array([[0, -1.25, 0, 19], [1, 0, 0, -3], [0, 0, 2.5, 4], [0, 0, 0, 1.0]])
SFORM = np.array([[-1.0, 0, 0, 5], [0, 0, 2.5, 6], [0, 1.25, 0, 7], [0, 0, 0, 1]])

LABELS = {"background": 0, "a": 1, "b": 2}
METRICS = ("dice", "hd", "volume_error")


def maps():
    """A reference and a prediction, with two labels each."""
    reference = np.zeros(SHAPE, np.uint8)
    reference[1:3, 1:4, 2:6], reference[3:, 4:, :2] = 1, 2
    prediction = np.zeros(SHAPE, np.uint8)
    prediction[1:4, 2:4, 1:5], prediction[3:, 3:, 1:3] = 1, 2
    return reference, prediction


def write_nifti(path, values, *, sform=SFORM, qform=QFORM, codes=(0, 1), pixdim=None, **stored):
    """Write a file byte by byte, so that no library makes its header agree with itself.

    ``codes`` are those of the sform and of the qform.
    """
    kind = nibabel.Nifti2Header if stored.get("version") == 2 else nibabel.Nifti1Header
    order = stored.get("order", "<")
    header = kind(endianness=order)
    header.set_data_shape(values.shape[::-1])
    header.set_data_dtype(np.dtype(stored.get("dtype", "u1")).newbyteorder(order))
    header.set_sform(sform, 1)
    header.set_qform(qform, 1)
    header["sform_code"], header["qform_code"] = codes
    if pixdim is not None:
        header["pixdim"][1:4] = pixdim
    slope, intercept = stored.get("scale", (1, 0))
    header["scl_slope"], header["scl_inter"] = slope, intercept
    offset = header.single_vox_offset
    header["vox_offset"] = offset
    header["magic"] = header.single_magic

    voxels = ((values.astype(float) - intercept) / slope).astype(header.get_data_dtype())
    content = (header.binaryblock + bytes(4)).ljust(offset, b"\0") + voxels.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def nnunet_reader(ending, name=None, example=None):
    described = {"file_ending": ending}
    if name:
        described["overwrite_image_reader_writer"] = name
    return determine_reader_writer_from_dataset_json(described, example, verbose=False)()


def read_by_nnunet(path, ending, name=None):
    """Array (z, y, x) and spacing (z, y, x) of nnU-Net's reader."""
    values, properties = nnunet_reader(ending, name, str(path)).read_seg(str(path))
    return values[0], properties["spacing"]


def borders(mask, spacing):
    """Positions, mm, of the voxels of a mask with a neighbour outside of it."""
    inside = {tuple(index) for index in np.argwhere(mask)}
    steps = [*np.eye(3, dtype=int), *-np.eye(3, dtype=int)]
    border = [index for index in inside if any(tuple(index + step) not in inside for step in steps)]
    return np.array(border) * spacing


def looped(reference, prediction, spacing):
    """The metrics of both labels by their definitions."""
    expected = []
    for value in (1, 2):
        of_reference, of_prediction = reference == value, prediction == value
        n_both = (of_reference & of_prediction).sum()
        distances = cdist(borders(of_reference, spacing), borders(of_prediction, spacing))
        n_more = int(of_prediction.sum()) - int(of_reference.sum())
        expected += [
            2 * n_both / (of_reference.sum() + of_prediction.sum()),
            max(distances.min(axis=0).max(), distances.min(axis=1).max()),
            n_more * np.prod(spacing) / 1000,
        ]
    return expected


def scored(reference, prediction, reader=None):
    labels = Labels({"a": (1,), "b": (2,)}, reader=reader)
    result = score_pair(PairOfFiles("case", reference, prediction), labels, Scoring(METRICS))
    return [row[name] for row in result.rows for name in METRICS], result.rules


def check_pair(reference, prediction, ending, name=None):
    """Check the scores of two files against nnU-Net's reader and the loop."""
    values, spacing = read_by_nnunet(reference, ending, name)
    predicted, _ = read_by_nnunet(prediction, ending, name)
    reader = Reader(name) if name else None

    label_map = read_label_map(reference, reader)
    metrics, rules = scored(reference, prediction, reader)

    if name != "NibabelIOWithReorient":
        assert np.array_equal(label_map.values, values)
    assert sorted(label_map.grid.spacing) == pytest.approx(sorted(spacing), rel=1e-5)
    assert metrics == pytest.approx(looped(values, predicted, spacing), rel=1e-5)
    assert rules is None


def itk_affine(path):
    image = SimpleITK.ReadImage(str(path))
    affine = np.eye(4)
    affine[:3, :3] = np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing()
    affine[:3, 3] = image.GetOrigin()
    return affine


@pytest.mark.parametrize("version", [1, 2])
def test_every_pair_of_codes_is_read_as_itk_and_nibabel_read_it(tmp_path, version):
    reference, _ = maps()
    path = tmp_path / "a.nii.gz"
    mirrored = QFORM @ np.diag([-1, 1, 1, 1])
    moved = QFORM.copy()
    moved[:3, 3] += [10, -20, 5]
    oblique = QFORM.copy()
    oblique[:3, :3] = QFORM[:3, :3] @ np.diag([1, np.cos(0.1), np.cos(0.1)])
    oblique[2, 1], oblique[0, 2] = 1.25 * np.sin(0.1), 2.5 * np.sin(0.1)
    forms = {"turned": SFORM, "mirrored": mirrored, "moved": moved, "oblique": oblique}

    for sform, codes in itertools.product(forms.values(), itertools.product(range(6), repeat=2)):
        write_nifti(path, reference, sform=sform, codes=codes, version=version)
        in_nibabel = np.diag([-1, -1, 1, 1]) @ nibabel.load(path).affine
        # SimpleITK reads no NIfTI-2, and nnU-Net then takes nibabel.
        in_itk = itk_affine(path) if version == 1 else in_nibabel

        values, grid = read_nifti(path, Reader.ITK)
        _, by_nibabel = read_nifti(path, Reader.NIBABEL)

        assert np.array_equal(values, reference)
        assert grid.affine == pytest.approx(in_itk, abs=1e-4), codes
        assert by_nibabel.affine == pytest.approx(in_nibabel, abs=1e-4), codes
        _, image_grid = read_image(path)
        assert np.array_equal(image_grid.affine, grid.affine)


@pytest.mark.parametrize("name", [None, "SimpleITKIO", "NibabelIO", "NibabelIOWithReorient"])
@pytest.mark.parametrize("ending", [".nii.gz", ".nii"])
def test_scores_of_every_header_are_those_of_nnunets_reader(tmp_path, name, ending):
    if (name, ending) == ("SimpleITKIO", ".nii"):
        name = None
    pair = [tmp_path / f"{which}{ending}" for which in ("reference", "prediction")]
    forms = [(SFORM, QFORM), (np.diag([2, 2, 2, 1.0]), np.eye(4)), (QFORM, SFORM)]

    for (sform, qform), codes in itertools.product(forms, [(0, 0), (2, 1), (1, 1), (4, 0), (0, 3)]):
        pixdim = np.linalg.norm(qform[:3, :3], axis=0)
        for path, values in zip(pair, maps(), strict=True):
            write_nifti(path, values, sform=sform, qform=qform, codes=codes, pixdim=pixdim)
        check_pair(*pair, ending, name)


STORED = [
    {"dtype": dtype, "order": order, "version": version, "scale": scale}
    for dtype, order, version, scale in itertools.product(
        ("u1", "i2", "i8", "f4", "f8"), "<>", (1, 2), ((1, 0), (0.25, -1))
    )
]


@pytest.mark.parametrize("ending", [".nii.gz", ".nii"])
def test_voxels_of_every_type_are_those_of_nnunets_reader(tmp_path, ending):
    pair = [tmp_path / f"{which}{ending}" for which in ("reference", "prediction")]
    write_nifti(pair[1], maps()[1], codes=(1, 1))

    for stored in STORED:
        write_nifti(pair[0], maps()[0], codes=(1, 1), **stored)
        check_pair(*pair, ending)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_maps_stored_in_another_order_score_the_same(tmp_path, order):
    reference, prediction = maps()
    write_nifti(tmp_path / "reference.nii.gz", reference, codes=(1, 0))
    _, spacing = read_by_nnunet(tmp_path / "reference.nii.gz", ".nii.gz")
    expected = looped(reference, prediction, spacing)

    for flips, ending in itertools.product(
        itertools.product((1, -1), repeat=3), (".nii.gz", ".nrrd", ".mha")
    ):
        image = SimpleITK.ReadImage(str(tmp_path / "reference.nii.gz"))
        copied = SimpleITK.GetImageFromArray(prediction)
        copied.CopyInformation(image)
        turned = SimpleITK.PermuteAxes(copied, order)
        turned = SimpleITK.Flip(turned, [flip < 0 for flip in flips])
        path = tmp_path / f"prediction{ending}"
        SimpleITK.WriteImage(turned, str(path))

        metrics, rules = scored(tmp_path / "reference.nii.gz", path)

        assert metrics == pytest.approx(expected, rel=1e-5)
        assert rules is None


@pytest.mark.parametrize("ending", [".nrrd", ".mha", ".gipl", ".nii.gz"])
def test_formats_of_itk_are_those_of_nnunets_reader(tmp_path, ending):
    pair = [tmp_path / f"{which}{ending}" for which in ("reference", "prediction")]
    for path, values in zip(pair, maps(), strict=True):
        image = SimpleITK.GetImageFromArray(values)
        image.SetSpacing((0.5, 0.75, 2))
        if ending != ".gipl":
            image.SetDirection((0, 1, 0, -1, 0, 0, 0, 0, 1))
        SimpleITK.WriteImage(image, str(path))

    check_pair(*pair, ending)


@pytest.mark.parametrize("dtype", ["u1", "i8", "u8", "f2", "f8"])
@pytest.mark.parametrize("n_slices", [3, 4, 5])
@pytest.mark.filterwarnings("ignore:.*are stored as RGB:DeprecationWarning")
def test_tiff_is_that_of_nnunets_reader(tmp_path, dtype, n_slices):
    pair = [tmp_path / f"{which}.tiff" for which in ("reference", "prediction")]
    for path, values in zip(pair, maps(), strict=True):
        tifffile.imwrite(path, values[-n_slices:].astype(dtype))
        path.with_suffix(".json").write_text(json.dumps({"spacing": [4, 1, 2]}))

    check_pair(*pair, ".tiff")


@pytest.mark.filterwarnings("ignore:.*are stored as RGB:DeprecationWarning")
def test_tiff_of_three_columns_is_a_volume_where_it_has_a_voxel_size(tmp_path):
    pair = [tmp_path / f"{which}.tiff" for which in ("reference", "prediction")]
    for path, values in zip(pair, maps(), strict=True):
        columns = values[:, :, 1:4]
        tifffile.imwrite(path, columns)
        with tifffile.TiffFile(path) as file:
            assert file.series[0].axes == "YXS"
        with pytest.raises(ValueError, match=rf"one channel.*voxel size in {path.stem}\.json"):
            read_label_map(path)
        path.with_suffix(".json").write_text(json.dumps({"spacing": [4, 1, 2]}))
        tifffile.imwrite(tmp_path / f"{path.stem}_0000.tiff", columns)
        image, _ = read_image(tmp_path / f"{path.stem}_0000.tiff")
        assert np.array_equal(image, columns)

    check_pair(*pair, ".tiff")


def test_compressed_and_coloured_tiff_are_read_or_refused(tmp_path):
    values = maps()[0]
    for compression in ("zlib", "zstd", "lzw"):
        tifffile.imwrite(tmp_path / "a.tif", values, compression=compression)
        assert np.array_equal(read_label_map(tmp_path / "a.tif").values, values)

    palette = Image.fromarray(values[1]).convert("P")
    palette.putpalette([9, 9, 9, 0, 200, 0, 0, 0, 200])
    palette.save(tmp_path / "palette.tif")
    assert np.array_equal(read_label_map(tmp_path / "palette.tif").values[0], values[1])

    (tmp_path / "cut.tif").write_bytes((tmp_path / "a.tif").read_bytes()[:60])
    with pytest.raises(ValueError, match=r"cut\.tif': tifffile cannot read it"):
        read_label_map(tmp_path / "cut.tif")

    with tifffile.TiffWriter(tmp_path / "pages.tif") as file:
        for plane in values:
            file.write(plane)
    with pytest.raises(ValueError, match=r"pages\.tif': it has 5 images instead of one volume"):
        read_label_map(tmp_path / "pages.tif")


def with_significant_bits(png, *n_bits):
    """A PNG file with a chunk that says how many bits of each channel count, after its header."""
    chunk = b"sBIT" + bytes(n_bits)
    framed = struct.pack(">I", len(n_bits)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return png[:33] + framed + png[33:]


@pytest.mark.parametrize("kind", ["plain", "bits", "transparent", "palette", "grey", "16"])
@pytest.mark.parametrize("ending", [".png", ".bmp"])
def test_pictures_are_those_of_nnunets_reader(tmp_path, kind, ending):
    path = tmp_path / f"a{ending}"
    options = {}
    picture = Image.fromarray(maps()[0][1] + maps()[0][3])
    if kind == "bits":
        picture = Image.fromarray(maps()[0][1] > 0)
    elif kind == "palette":
        picture.putpalette([0, 0, 0, 7, 7, 7, 9, 9, 9])
    elif kind == "grey":
        picture = picture.convert("RGB")
    elif kind == "16" and ending == ".png":
        picture = Image.fromarray(300 * maps()[0][3].astype(np.uint16))
    elif kind == "transparent" and ending == ".png":
        options["transparency"] = 0
    picture.save(path, **options)

    contents = [path.read_bytes()]
    if ending == ".png":
        n_channels = 3 if kind in ("palette", "grey") else 1
        contents.append(with_significant_bits(contents[0], *[2] * n_channels))
    for content in contents:
        path.write_bytes(content)
        values, _ = nnunet_reader(ending).read_seg(str(path))
        assert np.array_equal(read_label_map(path).values, values[0])
        assert np.array_equal(read_image(path)[0], values[0])


@pytest.mark.parametrize("ending", [".png", ".bmp", ".gipl", ".nrrd", ".mha"])
@pytest.mark.parametrize("n_channels", [1, 3])
def test_files_that_are_cut_are_refused(tmp_path, ending, n_channels):
    path = tmp_path / f"a{ending}"
    values = np.random.default_rng(0).integers(0, 3, (40, 50), dtype=np.uint8)
    if n_channels > 1:
        values = np.stack([values] * n_channels, axis=-1)
    if ending != ".gipl":
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(values, n_channels > 1), str(path))
    else:
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(values, False), str(path))
    content = path.read_bytes()

    for n_lacking in (40, len(content) // 2):
        path.write_bytes(content[:-n_lacking])
        for read in (read_label_map, read_image):
            with pytest.raises(ValueError, match=rf"a\{ending}"):
                read(path)


def test_spacing_of_tiff_is_that_of_prediction_or_original(tmp_path, monkeypatch):
    monkeypatch.setenv("nnUNet_raw", str(tmp_path / "raw"))
    copies = tmp_path / "preprocessed/Dataset001_A/gt_segmentations"
    originals = tmp_path / "raw/Dataset001_A/labelsTr"
    predictions = tmp_path / "validation"
    for folder, values in ((copies, 0), (originals, 0), (predictions, 1)):
        folder.mkdir(parents=True)
        tifffile.imwrite(folder / "case.tif", maps()[values])
    pair = (copies / "case.tif", predictions / "case.tif")
    spacing = json.dumps({"spacing": [4, 1, 2]})

    (originals / "case.json").write_text(spacing)
    assert scored(*pair)[0] == pytest.approx(looped(*maps(), (4, 1, 2)))

    (originals / "case.json").unlink()
    assert read_label_map(pair[0]).grid.affine is None
    (predictions / "case.json").write_text(spacing)
    assert scored(*pair)[0] == pytest.approx(looped(*maps(), (4, 1, 2)))


def test_pairs_that_fit_by_the_other_rule_or_by_both_are_told(tmp_path):
    reference, prediction = maps()
    mirrored = np.diag([-1, 1, 2, 1.0])
    mirrored[0, 3] = SHAPE[2] - 1
    moved = np.diag([1, 1, 2, 1.0])
    moved[:3, 3] = 10, -20, 5
    qform = np.diag([1, 1, 2, 1.0])
    path = tmp_path / "reference.nii.gz"

    for sform, rules in ((moved, Rules.ONLY_OTHER), (mirrored, Rules.DIFFER)):
        write_nifti(path, reference, sform=sform, qform=qform, codes=(2, 1))
        write_nifti(tmp_path / "a.nii.gz", prediction, sform=sform, qform=qform, codes=(2, 0))
        metrics, told = scored(path, tmp_path / "a.nii.gz")
        assert told == rules
        if rules is Rules.ONLY_OTHER:
            assert metrics == pytest.approx(looped(reference, prediction, (2, 1, 1)))

        # The dataset names the reader.
        metrics, told = scored(path, tmp_path / "a.nii.gz", Reader.NIBABEL)
        assert told is None
        assert metrics == pytest.approx(looped(reference, prediction, (2, 1, 1)))

    # As nnU-Net's own reader writes it.
    values, properties = SimpleITKIO().read_seg(str(path))
    SimpleITKIO().write_seg(values[0], str(tmp_path / "own.nii.gz"), properties)
    assert scored(path, tmp_path / "own.nii.gz")[0][:2] == [1, 0]


def test_the_volume_of_a_sheared_voxel_is_the_determinant(tmp_path):
    sheared = np.diag([1, 1, 2, 1.0])
    sheared[0, 1] = 0.3
    lengths = np.linalg.norm(sheared[:3, :3], axis=0)
    paths = [tmp_path / f"{which}.nii.gz" for which in ("reference", "prediction")]
    for path, values in zip(paths, maps(), strict=True):
        write_nifti(path, values, sform=sheared, codes=(1, 0), pixdim=lengths)

    _, told = scored(*paths)

    grid = read_label_map(paths[0]).grid
    assert told == Rules.ONLY_OTHER  # ITK refuses it
    assert grid.voxel_ml == pytest.approx(0.002)
    assert grid.spacing == pytest.approx(lengths[::-1])

    scoring = Scoring(("lesion_recall",), instances=Instances(("a",)))
    lesions = score_pair(
        PairOfFiles("case", *paths), Labels({"a": (1,), "b": (2,)}), scoring
    ).lesions
    # 24 voxels.
    assert lesions[0]["volume_mm3"] == 48.0


def test_values_as_coarse_as_the_header_says_are_labels(tmp_path):
    labels = np.zeros((10, 10, 10))
    labels[2:5], labels[5:8] = 1, 2
    image = nibabel.Nifti1Image(labels, np.eye(4))
    image.header.set_data_dtype(np.uint8)
    nibabel.save(image, tmp_path / "a.nii.gz")
    assert np.array_equal(read_label_map(tmp_path / "a.nii.gz").values, labels.transpose())

    labels[0] = 0.5
    image = nibabel.Nifti1Image(labels, np.eye(4))
    image.header.set_data_dtype(np.uint8)
    nibabel.save(image, tmp_path / "b.nii.gz")
    with pytest.raises(ValueError, match=r"b\.nii\.gz'.*scl_slope 0\.0078"):
        read_label_map(tmp_path / "b.nii.gz")


def test_absurd_lengths_of_a_header_are_refused(tmp_path):
    path = tmp_path / "a.nii.gz"
    write_nifti(path, maps()[0], version=2)
    content = bytearray(gzip.decompress(path.read_bytes()))
    struct.pack_into("<3q", content, 24, 2**32, 2**31, 4)
    path.write_bytes(gzip.compress(bytes(content)))

    with pytest.raises(ValueError, match=r"header is damaged"):
        read_label_map(path)


def test_a_slope_that_makes_background_of_labels_is_refused(tmp_path):
    path = tmp_path / "a.nii.gz"
    write_nifti(path, maps()[0])
    content = bytearray(gzip.decompress(path.read_bytes()))
    struct.pack_into("<f", content, 112, 1e-38)
    path.write_bytes(gzip.compress(bytes(content)))

    with pytest.raises(ValueError, match=r"a\.nii\.gz'.*scl_slope of 1e-38"):
        read_label_map(path)
