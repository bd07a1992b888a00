import numpy as np
import pandas as pd
import pytest
import SimpleITK
from scipy.stats import ks_2samp

from experiments.datasets.lesions import (
    CENTRES,
    CONTRAST,
    VOLUME,
    make_lesion_phantom,
    write_lesions,
)
from experiments.datasets.phantoms import Counts

N_DRAWN = 80


@pytest.fixture(scope="module")
def drawn():
    return {
        centre: [
            make_lesion_phantom(centre, rng=np.random.default_rng([i, j])) for j in range(N_DRAWN)
        ]
        for i, centre in enumerate(CENTRES)
    }


def known(phantoms, what):
    return np.array([phantom.entries[what] for phantom in phantoms])


def test_lesions_spread_alike_in_rare_centres_and_are_faint_in_b(drawn):
    assert VOLUME[1] / VOLUME[0] == CONTRAST[1] / CONTRAST[0] == pytest.approx(40)

    for phantoms in drawn.values():
        for what in ("volume", "contrast"):
            low, high = np.quantile(known(phantoms, what), (0.05, 0.95))
            assert high / low > 15
    for what in ("volume", "contrast"):
        for rare in ("c", "d"):
            assert ks_2samp(known(drawn[rare], what), known(drawn["a"], what)).pvalue > 1e-3
    assert np.median(known(drawn["b"], "contrast")) < np.median(known(drawn["a"], "contrast")) / 2

    for phantom in drawn["a"]:
        if phantom.entries["contrast"] > 0.3 and phantom.entries["volume"] > 100:
            lesion = phantom.labels == 1
            assert phantom.image[lesion].mean() > 1.3 * np.median(
                phantom.image[phantom.image > phantom.image.mean()]
            )


def test_a_wrong_label_is_on_the_other_side():
    right, wrong = (
        make_lesion_phantom("a", rng=np.random.default_rng(3), wrong=wrong)
        for wrong in (False, True)
    )
    np.testing.assert_array_equal(right.image, wrong.image)
    np.testing.assert_array_equal(right.labels[:, :, ::-1], wrong.labels)
    assert (right.entries["wrong"], wrong.entries["wrong"]) == ("no", "yes")


def test_three_tenths_of_the_training_labels_of_common_centres_are_wrong(tmp_path):
    counts = Counts({"a": 8, "b": 6, "c": 3, "d": 3}, validation=1, test=2)
    folder = write_lesions(
        tmp_path / "Dataset001_Lesions", counts, wrong=0.3, rng=np.random.default_rng(0)
    )

    training, test = (
        pd.read_csv(folder / f"{name}cases.csv", dtype={"case": str}) for name in ("", "test_")
    )

    assert (training["wrong"] == "yes").sum() == 6
    assert set(training["centre"][training["wrong"] == "yes"]) <= {"a", "b"}
    assert test["centre"].value_counts().to_dict() == dict.fromkeys(CENTRES, 2)
    assert set(test["wrong"]) == {"no"}

    for case, volume in zip(training["case"], training["volume"], strict=True):
        labels = SimpleITK.GetArrayFromImage(
            SimpleITK.ReadImage(str(folder / "labelsTr" / f"{case}.nii.gz"))
        )
        assert (labels == 1).sum() == volume
