"""The options that an evaluation was made with, in its summary.json."""

import pytest

from nnunet_dro.evaluation import evaluate, parse_requirement
from nnunet_dro.evaluation.options import EvaluateOptions
from nnunet_dro.evaluation.result_files import read_evaluation
from tests.evaluation.made_folders import run_evaluate, summary_of, write_study


def test_options_are_read_as_they_were_written(tmp_path):
    write_study(tmp_path, shifts=(0, 1))
    assert run_evaluate(tmp_path, "--by", "auto:size", "--instances", "tumour", "--failure", "dice<0.7").exit_code == 0

    written, options = summary_of(tmp_path / "out")["options"], read_evaluation(tmp_path / "out").options
    folders = {name: str(tmp_path / name) for name in ("reference", "prediction")}
    assert {**folders, **options.record()} == written
    assert (options.by, options.failure, options.instances) == (("auto:size",), "dice<0.7", ("tumour",))


def test_options_that_python_code_gives_by_name_replace_those_of_an_object(tmp_path):
    write_study(tmp_path, shifts=(0, 1))
    folders, options = (tmp_path / "reference", tmp_path / "prediction"), EvaluateOptions(n_resamples=0, seed=7)
    requirement = parse_requirement("label=tumour mean>=0.5")

    evaluation = evaluate(*folders, options, seed=3, requirements=[requirement])
    assert (evaluation.options.n_resamples, evaluation.options.seed) == (0, 3)
    assert [outcome["passed"] for outcome in evaluation.about["requirements"]] == [True]
    with pytest.raises(TypeError, match="speed"):
        evaluate(*folders, speed=1)


def test_what_an_evaluation_does_not_record_has_its_default():
    assert EvaluateOptions.of({}) == EvaluateOptions(metrics=())
    assert EvaluateOptions.of({"seed": 3, "of_later_versions": 1}) == EvaluateOptions(metrics=(), seed=3)
    options = EvaluateOptions(by="centre", metrics="dice", instances="tumour")
    assert (options.by, options.metrics, options.instances) == (("centre",), ("dice",), ("tumour",))


def test_a_name_that_is_none_is_no_attribute():
    import nnunet_dro.evaluation

    assert not hasattr(nnunet_dro.evaluation, "evalute")
