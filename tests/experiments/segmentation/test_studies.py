from experiments.segmentation.experiment import SOURCES, finetuning_study
from nnunet_dro.model_folders.finetuning import LEARNING_RATE, finetuning_trainer
from nnunet_dro.trainers.registry import trainer_class


def test_the_study_is_of_trainers_that_nnunet_finds_on_the_said_counts():
    study = finetuning_study(quick=False)
    for method in study.trainers:
        cls = trainer_class(study.trainer(method))
        assert cls.__name__ == study.trainer(method)

    train = study.settings["train"]

    assert sum(train.values()) == 600
    assert 0.03 <= train["rare"] / 600 <= 0.1
    assert (study.rare, study.common) == (("rare",), ("common", "control"))

    trainers = {method: study.trainer(method) for method in study.trainers}
    assert trainers["ERM"] == "nnUNetTrainerHWS_beta0_10epochs_100iters"

    for method in SOURCES:
        options = trainer_class(trainers[method]).options
        assert (options.epochs, options.iterations, options.learning_rate) == (
            10,
            10,
            LEARNING_RATE,
        )
        anew = study.trainers[method.removesuffix("_finetuned")]
        assert finetuning_trainer(f"{anew}_10epochs_10iters") == trainers[method]
