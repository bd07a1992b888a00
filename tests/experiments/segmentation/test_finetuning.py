from experiments.segmentation.experiment import SOURCES, finetuning
from nnunet_dro.model_folders.finetuning import LEARNING_RATE, finetuning_trainer
from nnunet_dro.trainers.registry import trainer_class


def test_the_trainings_are_of_trainers_that_nnunet_finds_and_counts():
    trainings = finetuning(quick=False)
    for method in trainings.trainers:
        cls = trainer_class(trainings.trainer(method))
        assert cls.__name__ == trainings.trainer(method)

    train = trainings.data.settings["train"]

    assert sum(train.values()) == 600
    assert 0.03 <= train["rare"] / 600 <= 0.1
    assert (trainings.data.rare, trainings.data.common) == (("rare",), ("common", "control"))

    names = {method: trainings.trainer(method) for method in trainings.trainers}
    assert names["ERM"] == "nnUNetTrainerHWS_beta0_10epochs_100iters"

    for method in SOURCES:
        options = trainer_class(names[method]).options
        assert (options.epochs, options.iterations, options.learning_rate) == (
            10,
            10,
            LEARNING_RATE,
        )
        anew = trainings.trainers[method.removesuffix("_finetuned")]
        assert finetuning_trainer(f"{anew}_10epochs_10iters") == names[method]
