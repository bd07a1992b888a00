import pytest

from nnunet_dro.files.output_folder import replacing, write_files
from tests.trainers.draws import largest_file


def test_replacing_moves_the_complete_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
        assert partial.suffix == ".csv"
    (tmp_path / "b.partial.csv").write_text("of a process that was killed")

    with replacing(path), replacing(tmp_path / "b.csv"):
        pass  # nothing is written

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_replacing_keeps_the_old_file_when_writing_fails(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")

    def write_half():
        with replacing(path) as partial:
            partial.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("folder", ["", "new"])
def test_a_full_disk_is_told_with_the_file(tmp_path, folder):
    with largest_file(10), pytest.raises(OSError, match=r"File too large: '.*a\.html'$"):
        write_files(tmp_path / folder, {"a.html": "x" * 100})
