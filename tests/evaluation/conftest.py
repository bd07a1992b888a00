"""What tests of evaluations share."""

import pytest

from tests.evaluation.made_folders import write_study


@pytest.fixture
def study(tmp_path):
    """Two cases; the tumour of the second is moved by one of its four voxels."""
    return write_study(tmp_path, shifts=(0, 1))
