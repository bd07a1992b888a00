import subprocess
import sys


def test_evaluation_imports_neither_torch_nor_nnunet():
    code = (
        "import sys, nnunet_dro.evaluation as room; [getattr(room, name) for name in room.__all__]; "
        "print([n for n in ('torch', 'nnunetv2', 'SimpleITK') if n in sys.modules])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"


def test_a_name_that_is_none_is_no_attribute():
    import nnunet_dro.evaluation

    assert not hasattr(nnunet_dro.evaluation, "evalute")
