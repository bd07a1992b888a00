from functools import partial

import pytest

from tests.nnunet.made_raw import make_bare


@pytest.fixture
def bare(tmp_path):
    return partial(make_bare, tmp_path)
