import pytest

from experiments.nuclei import __main__ as rare_modalities
from experiments.nuclei import factorial, finetuning, unseen, wrong_labels


@pytest.mark.parametrize("experiment", [rare_modalities, factorial, finetuning, unseen, wrong_labels])
def test_a_folder_without_the_dataset_is_one_line(experiment, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        experiment.main(["--data", str(tmp_path)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert "cases.csv is missing" in error
    assert error.count("\n") == 1
