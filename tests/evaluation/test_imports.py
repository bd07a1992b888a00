import subprocess
import sys


def test_evaluation_imports_neither_torch_nor_nnunet():
    code = (
        "import sys, nnunet_dro.evaluation; print([n for n in ('torch', 'nnunetv2', 'SimpleITK') if n in sys.modules])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"
