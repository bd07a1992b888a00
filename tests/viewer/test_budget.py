import pytest

from nnunet_dro.evaluation.report.gallery import Choice
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.viewer.volumes import MB, shown_cases

from .made import write_cases

LABELS = Labels({"organ": (1, 2), "tumour": (2,)})
CASES = ("case_00", "case_01", "case_02")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_cases(tmp_path_factory.mktemp("cases"), shifts=(2, 4, 6), n_channels=2)


def shown(folder, *, most_mb, cases=CASES, **options):
    choices = [Choice("all", "all", "organ", case, 0.5) for case in cases]
    files = {case: tuple(folder / kind / f"{case}.nii.gz" for kind in ("reference", "prediction")) for case in cases}
    return shown_cases(choices, folder / "images", files, LABELS, most_mb=most_mb, **options)


def test_channels_then_the_least_urgent_cases_go_until_it_fits(folder):
    seen = []
    found = shown(folder, most_mb=10, progress=lambda *n: seen.append(n))
    assert list(found.volumes) == list(CASES)
    assert [found.n_channels(case) for case in CASES] == [2, 2, 2]
    assert (found.left_out, found.only_first_channel) == ([], False)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    room = shown(folder, most_mb=10).n_bytes / MB
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
    assert [(case, volumes.is_cut) for case, volumes in found.volumes.items()] == [("case_00", True)]
    assert found.n_bytes <= 0.03 * MB


def test_no_room_or_a_missing_image_is_refused_before_any_is_read(folder):
    with pytest.raises(ValueError, match=r"`viewer_mb` must be at least 1\.1 to .* case, 'case_00', got 1\. Raise"):
        shown(folder, most_mb=1, frame_bytes=MB)
    seen = []
    with pytest.raises(FileNotFoundError, match="`images` must have an image for every case, got none for 'case_09'"):
        shown(folder, most_mb=10, cases=("case_00", "case_09"), progress=lambda *n: seen.append(n))
    assert seen == []


def test_a_case_is_packed_once_for_all_its_labels(folder):
    choices = [Choice("all", "all", label, "case_00", 0.5) for label in ("tumour", "organ", "tumour")]
    files = {"case_00": tuple(folder / kind / "case_00.nii.gz" for kind in ("reference", "prediction"))}
    found = shown_cases(choices, folder / "images", files, LABELS, most_mb=10)
    assert list(found.volumes["case_00"].labels) == ["tumour", "organ"]
