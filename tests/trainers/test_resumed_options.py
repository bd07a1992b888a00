import pytest

from nnunet_dro.trainers.checkpoint import check_resumed, recorded_options
from nnunet_dro.trainers.options import DROOptions, GILSOptions, HWSOptions
from nnunet_dro.trainers.registry import parse_trainer_name


def options_of(name):
    return parse_trainer_name(f"nnUNetTrainer{name}")[1]


@pytest.mark.parametrize("name", ["DRO", "DRO_beta10_IS", "HWS", "IW_centre", "L2RW", "GILS_T2", "GroupDRO_site"])
def test_a_training_goes_on_under_its_own_name_and_another_length(name):
    recorded = recorded_options(options_of(name))
    check_resumed(options_of(name), recorded)
    check_resumed(options_of(f"{name}_20epochs"), recorded)


def test_a_training_of_other_options_stops_with_the_name_to_use():
    recorded = recorded_options(HWSOptions(beta=10.0, epochs=20))
    with pytest.raises(ValueError, match=r"continue with -tr nnUNetTrainerHWS_beta10_20epochs --c\."):
        check_resumed(DROOptions(beta=10.0, epochs=20), recorded)


def test_a_default_that_has_changed_since_stops_with_the_name_to_use():
    recorded = recorded_options(DROOptions())
    recorded["values"]["share"], recorded["values"]["hardness"] = 0.25, "loss"
    with pytest.raises(ValueError, match=r"nnUNetTrainerDRO_share0\.25_hardLoss "):
        check_resumed(DROOptions(), recorded)


def test_other_options_of_other_trainers_are_named():
    recorded = recorded_options(GILSOptions())
    recorded["values"]["step_size"] = 7.0
    with pytest.raises(ValueError, match=r"step_size 7\.0"):
        check_resumed(GILSOptions(), recorded)
