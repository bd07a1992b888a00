import json
import math

import pytest

from nnunet_dro.selfcheck import Number, installed_sha256, selfcheck
from nnunet_dro.selfcheck import differences as module
from tests.commands import done, run


@pytest.fixture(scope="module")
def record():
    return selfcheck()


def test_every_number_of_this_installation_is_the_one_by_hand(record):
    assert [number for number in record.numbers if not number.agrees] == []
    assert len(record.numbers) > 200
    assert record.lines()[-1] == f"{len(record.numbers)} numbers, all as expected."


@pytest.mark.parametrize(
    ("expected", "found", "agrees"),
    [
        *((1.0, 1.0 + 1e-12, True), (374.0, 374.0 + 1e-7, True), (374.0, 374.0 + 1e-5, False)),
        *((math.nan, math.nan, True), (math.nan, 0.0, False), (0.0, math.nan, False)),
    ],
)
def test_numbers_agree_but_for_rounding(expected, found, agrees):
    assert Number("part", "name", expected, found).agrees is agrees


def test_the_record_is_written_and_a_wrong_installation_exits_with_one(tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    done(run("selfcheck", "-o", path))

    content = json.loads(path.read_text())

    assert content["agrees"] is True
    assert {"nnunet-dro", "Python", "numpy"} <= set(content["versions"])

    undefined = [number for number in content["numbers"] if number["expected"] is None]
    assert undefined
    assert all(number["found"] is None for number in undefined)

    monkeypatch.setattr(module, "typical_value", lambda differences: (2.0, 1.0, 4.0))
    lines = done(run("selfcheck"), 1).stdout.splitlines()

    assert lines[-1].endswith("1 not as expected.")
    assert sum("WRONG" in line for line in lines) == 1


def test_the_digest_is_that_of_the_files(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "__pycache__").mkdir()
    before = installed_sha256(tmp_path)

    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"compiled")

    assert installed_sha256(tmp_path) == before

    (tmp_path / "a.py").write_text("x = 2\n")
    assert installed_sha256(tmp_path) != before
