import pytest
import torch

from nnunet_dro.trainers.nnUNetTrainerHWS import nnUNetTrainerHWS


@pytest.fixture
def n_threads():
    """Threads as nnUNetv2_train sets them on a machine with three processors."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield torch.get_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("wished", "used"), [("1", 1), ("2,1", 2), ("8", 3), ("0", 3), ("many", 3), ("", 3), (None, 3)]
)
def test_training_on_a_cpu_keeps_to_omp_num_threads(make_trainer, monkeypatch, n_threads, wished, used):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if wished is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", wished)

    make_trainer(nnUNetTrainerHWS).initialize()

    assert n_threads() == used
