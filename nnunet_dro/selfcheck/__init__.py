"""Reference computations with known results, in the user's own installation."""

from nnunet_dro.selfcheck.checks import Number, check_numbers
from nnunet_dro.selfcheck.record import SelfcheckRecord, selfcheck

__all__ = ["Number", "SelfcheckRecord", "check_numbers", "selfcheck"]
