import numpy as np
import pandas as pd
import pytest
import SimpleITK
from scipy.stats import ks_2samp

from experiments.datasets import phantoms
from experiments.datasets.phantoms import (
    LABELS,
    PATHOLOGIES,
    SIZE,
    Counts,
    Phantom,
    make_phantom,
    write_dataset,
    write_tail,
)

N_DRAWN = 60


@pytest.fixture(scope="module")
def drawn():
    return {
        pathology: [
            make_phantom(pathology, rng=np.random.default_rng([i, j])) for j in range(N_DRAWN)
        ]
        for i, pathology in enumerate(PATHOLOGIES)
    }


def cerebella(phantom_list):
    """Voxels, mean height (0 below, 1 above), intensity as a share of white matter's."""
    rows = []
    for phantom in phantom_list:
        inside = phantom.labels == LABELS["cerebellum"]
        white = phantom.image[phantom.labels == LABELS["white_matter"]].mean()
        rows.append(
            (
                inside.sum(),
                np.nonzero(inside)[0].mean() / (SIZE - 1),
                phantom.image[inside].mean() / white,
            )
        )
    return np.array(rows).T


def test_rare_cerebellum_is_small_low_faint_and_varies(drawn):
    voxels, height, intensity = cerebella(drawn["rare"])
    usual_voxels, usual_height, usual_intensity = cerebella(drawn["control"])

    assert np.median(voxels) < np.median(usual_voxels) / 2
    assert height.mean() < usual_height.mean() - 0.1
    assert np.quantile(intensity, 0.9) < np.quantile(usual_intensity, 0.1)
    assert np.quantile(voxels, 0.9) > 2 * np.quantile(voxels, 0.1)
    assert height.std() > 0.03
    assert intensity.std() > 0.03
    assert len({phantom.labels.tobytes() for phantom in drawn["rare"]}) == N_DRAWN


def test_both_have_wide_ventricles_and_the_common_one_the_usual_cerebellum(drawn):
    def white_matter(phantom_list):
        return np.array(
            [(phantom.labels == LABELS["white_matter"]).sum() for phantom in phantom_list]
        )

    for pathology in ("common", "rare"):
        assert np.median(white_matter(drawn[pathology])) < 0.8 * np.median(
            white_matter(drawn["control"])
        )
    for of_common, of_control in zip(
        cerebella(drawn["common"]), cerebella(drawn["control"]), strict=True
    ):
        assert ks_2samp(of_common, of_control).pvalue > 1e-3


def test_image_says_nothing_else_of_the_pathology(drawn):
    """But for the cerebellum, rare heads look like those of the common pathology."""
    for measure in (
        lambda phantom: phantom.image[phantom.labels == LABELS["white_matter"]].mean(),
        lambda phantom: phantom.image[:2, :2, :2].std(),
        lambda phantom: (
            np.isin(phantom.labels, (LABELS["grey_matter"], LABELS["white_matter"]))
            .any(axis=0)
            .sum()
        ),
    ):
        rare, common = (
            [measure(phantom) for phantom in drawn[name]] for name in ("rare", "common")
        )
        assert ks_2samp(rare, common).pvalue > 1e-3


@pytest.mark.parametrize("pathology", PATHOLOGIES)
def test_phantom_has_every_label_and_finite_intensities(drawn, pathology):
    for phantom in drawn[pathology]:
        assert phantom.image.shape == phantom.labels.shape == (SIZE, SIZE, SIZE)
        assert set(np.unique(phantom.labels)) == set(LABELS.values())
        assert np.isfinite(phantom.image).all()


def test_displaced_cerebellum_outside_of_the_image_still_has_a_voxel():
    positions = phantoms._grid() + 10
    assert phantoms._displaced(positions, np.random.default_rng(0)).sum() == 1


def test_smooth_field_interpolates_its_control_points():
    """Against scipy's zoom of the whole field at once."""
    from scipy.ndimage import zoom

    control = np.random.default_rng(3).standard_normal((5, 5, 5))

    field = phantoms.smooth_field(np.random.default_rng(3))

    assert field == pytest.approx(zoom(control, SIZE / 5, order=3), abs=1e-9)


COUNTS = Counts({"control": 9, "common": 5, "rare": 3}, validation=2, test=4)


def test_dataset_has_the_cases_asked_for_by_names_that_do_not_tell(tmp_path):
    folder = write_dataset(tmp_path / "Dataset910_Phantoms", COUNTS, rng=np.random.default_rng(0))
    table, test = (pd.read_csv(folder / name) for name in ("cases.csv", "test_cases.csv"))

    assert table[table["split"] == "train"]["pathology"].value_counts().to_dict() == COUNTS.train
    assert table[table["split"] == "validation"]["pathology"].tolist() == ["control"] * 2
    assert test["pathology"].value_counts().to_dict() == dict.fromkeys(PATHOLOGIES, 4)
    for suffix, cases in (("Tr", table["case"]), ("Ts", test["case"])):
        assert {path.name for path in (folder / f"images{suffix}").iterdir()} == {
            f"{c}_0000.nii.gz" for c in cases
        }
        assert {path.name for path in (folder / f"labels{suffix}").iterdir()} == {
            f"{c}.nii.gz" for c in cases
        }
    assert not set(table["case"]) & set(test["case"])

    image, labels = (
        SimpleITK.ReadImage(str(folder / path / name))
        for path, name in (
            ("imagesTr", f"{table['case'][0]}_0000.nii.gz"),
            ("labelsTr", f"{table['case'][0]}.nii.gz"),
        )
    )
    assert image.GetSize() == labels.GetSize() == (SIZE,) * 3
    assert image.GetSpacing() == (1, 1, 1)

    changes = (table["pathology"] != table["pathology"].shift()).sum()
    assert table["case"].is_monotonic_increasing
    assert changes > len(PATHOLOGIES), (
        "the order of the names must not be the order of the pathologies"
    )


def test_dataset_depends_on_the_generator_alone(tmp_path):
    folders = [
        write_dataset(
            tmp_path / str(i) / "Dataset910_Phantoms", COUNTS, rng=np.random.default_rng(seed)
        )
        for i, seed in enumerate((0, 0, 1))
    ]
    for part in ("imagesTr", "labelsTr", "imagesTs"):
        contents = [
            {path.name: path.read_bytes() for path in (folder / part).iterdir()}
            for folder in folders
        ]
        assert contents[0] == contents[1] != contents[2]


def test_dataset_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = tmp_path / "Dataset910_Phantoms"
    made = []

    def fail_at_the_third(pathology, *, rng):
        made.append(pathology)
        if len(made) == 3:
            raise OSError("disk full")
        return make_phantom(pathology, rng=rng)

    monkeypatch.setattr(phantoms, "make_phantom", fail_at_the_third)

    with pytest.raises(OSError, match="disk full"):
        write_dataset(folder, COUNTS, rng=np.random.default_rng(0))
    assert not folder.exists()

    monkeypatch.setattr(phantoms, "make_phantom", make_phantom)
    write_dataset(folder, COUNTS, rng=np.random.default_rng(0))

    assert len(list((folder / "labelsTr").iterdir())) == 9 + 5 + 3 + 2


def test_few_rare_phantoms_of_a_tail_are_faint_and_the_others_bright(tmp_path):
    counts = {"control": 1, "other": 1, "rare": 21}
    folder = write_tail(tmp_path / "Dataset921_Tail", counts, counts, rng=np.random.default_rng(0))
    for name, images in (("cases", "Tr"), ("test_cases", "Ts")):
        table = pd.read_csv(folder / f"{name}.csv").query("split != 'validation'")
        assert table["pathology"].value_counts().to_dict() == counts
        assert table.loc[table["faint"], "pathology"].tolist() == ["rare"] * 3
        pairs = [
            (f"images{images}/{case}_0000", f"labels{images}/{case}") for case in table["case"]
        ]
        read = [[SimpleITK.ReadImage(f"{folder}/{of}.nii.gz") for of in pair] for pair in pairs]
        _, _, intensity = cerebella(
            [Phantom(*map(SimpleITK.GetArrayFromImage, pair)) for pair in read]
        )
        rare = table["pathology"].eq("rare").to_numpy()
        faint = table["faint"].to_numpy()
        assert intensity[faint].max() < intensity[rare & ~faint].min()
