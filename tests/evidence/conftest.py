from functools import cache

import pytest

from nnunet_dro.selfcheck import selfcheck

#: The first pack has a self-check of its own, and the others have its record: each takes longer
#: than the rest of a pack.
_RECORD = cache(selfcheck)


@pytest.fixture(autouse=True)
def _one_selfcheck(monkeypatch):
    monkeypatch.setattr("nnunet_dro.commands.evidence.selfcheck", _RECORD)
