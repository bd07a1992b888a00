import subprocess
import sys


def test_neither_torch_nor_nnunet_is_imported():
    program = "import sys, nnunet_dro.suspects; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    forbidden = {"torch", "nnunetv2", "nnunet_dro.sampling", "nnunet_dro.losses", "nnunet_dro.trainers", "matplotlib"}
    assert not forbidden & set(result.stdout.split())
