"""Reference computations with known results, and the record of them.

They run in the user's own installation.
"""

from nnunet_dro.selfcheck.number import Number
from nnunet_dro.selfcheck.record import SelfcheckRecord, installed_sha256, selfcheck

__all__ = ["Number", "SelfcheckRecord", "installed_sha256", "selfcheck"]
