"""A trainer's name in the names of folders."""

import pytest
from nnunetv2.utilities.file_path_utilities import convert_trainer_plans_config_to_identifier, get_ensemble_name

from nnunet_dro.trainers.named import longest_name
from nnunet_dro.trainers.registry import trainer_class

LONG = "nnUNetTrainerHWS_beta12.5_exactIS_normIS_clip0.25to7.5_momentum0.75_hardPresent_la0.5_3epochs"


@pytest.mark.parametrize(
    ("plans", "configurations", "longest"),
    [
        ("nnUNetPlans", ["2d", "3d_fullres", "3d_cascade_fullres"], 77),
        ("nnUNetResEncUNetLPlans", ["2d"], 70),
        ("nnUNetPlans", ["3d_fullres_of_small_patches"], 68),
        ("nnUNetPlans", [], 77),
    ],
)
def test_two_of_the_longest_names_make_a_folder_of_nnunet(plans, configurations, longest):
    assert longest_name(plans, configurations) == longest
    model = convert_trainer_plans_config_to_identifier(
        "n" * longest, plans.ljust(15, "-"), max([*configurations, "3d_cascade_fullres"], key=len)
    )
    ensemble = get_ensemble_name(model, model, (0, 1, 2, 3, 4))
    assert 253 < len(ensemble) <= 255


@pytest.mark.parametrize("name", [LONG, "nnUNetTrainerHWS_3epochs"])
def test_a_name_too_long_for_an_ensemble_is_warned_of(make_trainer, name):
    trainer = make_trainer(trainer_class(name), "2d_small")
    trainer.on_train_start()
    with open(trainer.log_file) as file:
        log = file.read()
    warned = f"WARNING: {name} has {len(name)} characters. nnUNetv2_find_best_configuration" in log
    assert warned == (len(name) > 77)
