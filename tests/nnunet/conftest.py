from functools import partial

import pytest

from tests.demo.conftest import raw
from tests.nnunet.made_raw import make_bare

__all__ = ["raw"]


@pytest.fixture
def bare(tmp_path):
    return partial(make_bare, tmp_path)
