"""The options that an evaluation was made with, in its summary.json."""

from nnunet_dro.evaluation.options import EvaluationOptions
from nnunet_dro.evaluation.result_files import read_evaluation
from tests.evaluation.made_folders import run_evaluate, summary_of, write_study


def test_options_are_read_as_they_were_written(tmp_path):
    write_study(tmp_path, shifts=(0, 1))
    assert run_evaluate(tmp_path, "--by", "auto:size", "--instances", "tumour", "--failure", "dice<0.7").exit_code == 0

    written, options = summary_of(tmp_path / "out")["options"], read_evaluation(tmp_path / "out").options
    assert options.record() == written
    assert (options.by, options.failure, options.instances["labels"]) == (["auto:size"], "dice<0.7", ["tumour"])


def test_what_an_evaluation_does_not_record_has_its_default():
    assert EvaluationOptions.of({}) == EvaluationOptions()
    assert EvaluationOptions.of({"options": {"seed": 3, "of_later_versions": 1}}) == EvaluationOptions(seed=3)
