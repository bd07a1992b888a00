import re
from dataclasses import fields

import numpy as np
import pytest

from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.sampling import KL, UNIFORM, Chi2, CVaR, EarnedBall, KLBall
from nnunet_dro.trainers.options import (
    NNUNET_EPOCHS,
    NNUNET_ITERATIONS,
    NNUNET_VALIDATION_ITERATIONS,
    DROOptions,
    GILSOptions,
    GroupDROOptions,
    History,
    HWSOptions,
    IWOptions,
    LSOptions,
    TrainerOptions,
    options_from_name,
)
from nnunet_dro.trainers.registry import parse_trainer_name

BASE = "nnUNetTrainerHWS"


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        ("", {}),
        ("_beta0", {"beta": 0.0}),
        ("_beta0.5_noIS", {"beta": 0.5, "importance_sampling": False}),
        ("_beta10_chi2", {"beta": 10.0, "chi2": True}),
        (
            "_beta10_momentum0.5_warmup3_plainSGD",
            {"beta": 10.0, "momentum": 0.5, "warmup": 3, "plain_sgd": True},
        ),
        ("_cvar0.1_doro0.05_momentum0.5", {"cvar": 0.1, "doro": 0.05, "momentum": 0.5}),
        ("_beta10_exactIS_clip0.5to2", {"beta": 10.0, "exact_ratio": True, "clip": (0.5, 2.0)}),
        ("_betaauto_normIS", {"auto_beta": True, "normalised": True}),
        ("_sub1x2x3_hardCE", {"subvolumes": (1, 2, 3), "hardness": "ce"}),
        ("_hardPresent", {"hardness": "present"}),
        (
            "_beta0_la1_vs0.5_poly2",
            {"beta": 0.0, "logit_adjustment": 1.0, "vector_scaling": 0.5, "polynomial_tail": 2.0},
        ),
        ("_beta0_replace", {"beta": 0.0, "replace": True}),
        ("_cvar0.1_explore0.3", {"cvar": 0.1, "exploration": 0.3}),
        ("_explore0", {"exploration": 0.0}),
        (
            "_beta10_noIS_lr0.0003_20epochs",
            {"beta": 10, "importance_sampling": False, "learning_rate": 3e-4, "epochs": 20},
        ),
        (
            "_beta3_clip0to4_momentum0.25_plainSGD_2epochs_5iters",
            {
                "beta": 3.0,
                "clip": (0, 4),
                "momentum": 0.25,
                "plain_sgd": True,
                "epochs": 2,
                "iterations": 5,
            },
        ),
    ],
)
def test_a_name_says_its_options_and_options_their_name(suffix, options):
    expected = HWSOptions(**options)
    assert options_from_name(BASE + suffix, base=BASE, kind=HWSOptions) == expected
    assert expected.suffix() == suffix


@pytest.mark.parametrize(
    ("suffix", "right"),
    [
        ("_beta100", ""),
        ("_noIS_beta10", "_beta10_noIS"),
        ("_5iters_2epochs", "_2epochs_5iters"),
        ("_beta10.0", "_beta10"),
        ("_beta010", "_beta10"),
        ("_beta.5", "_beta0.5"),
        ("_250iters", ""),
        ("_clip0.1to10", ""),
        ("_cvar0.1_doro0", "_cvar0.1"),
        ("_sub1x1x1", ""),
        ("_sub01x2x1", "_sub1x2x1"),
        ("_replace_explore0.1", "_explore0.1_replace"),
        ("_poly1_la1", "_la1_poly1"),
        ("_chi2_beta10", "_beta10_chi2"),
    ],
)
def test_another_spelling_stops_with_the_right_name(suffix, right):
    with pytest.raises(
        ValueError, match=f"must be written `{BASE}{right}`: one configuration has one name"
    ):
        options_from_name(BASE + suffix, base=BASE, kind=HWSOptions)


#: Names of trainers without what they all begin with, and what is said of them.
REFUSED = [
    ("HWS_bta10", "`bta10` in `nnUNetTrainerHWS_bta10` is not an option"),
    ("HWS_beta-1", "`beta-1` in .* is not an option"),
    ("HWS_beta1e3", "`beta1e3` in .* is not an option"),
    ("HWS_beta", "`beta` in .* is not an option"),
    ("HWS_beta10_beta20", "the option beta<x> twice"),
    ("HWS_hardCE_hardPresent", "gives both hardCE and hardPresent. Choose one"),
    ("HWS_hardCE_hardCE", "the option hardCE twice"),
    ("HWS_beta10_betaauto", "`beta` has no effect with `betaauto`"),
    ("HWS_betaauto_cvar0.1", "`betaauto` has no effect with `cvar`"),
    ("HWS_beta10_noIS_normIS", "`normIS` has no effect with `noIS`"),
    ("HWS_beta0_normIS", "`normIS` has no effect with `beta0`"),
    ("HWS_sub0x1x1", "`sub` must be a number >= 1, got 0"),
    ("HWS_sub2x2", "`sub2x2` in .* is not an option"),
    ("HWS_poly0", "`poly` must be a number > 0"),
    ("HWS_nu0.1", "`nu0.1` in .* is not an option of this trainer"),
    ("HWS__beta10", "`` in .* is not an option"),
    ("HWS_", "`` in .* is not an option"),
    ("HWSbeta10", "must have an underscore after nnUNetTrainerHWS"),
    ("HWS_clip2to3", "`clip` must be two numbers"),
    ("HWS_clip1to1", "`clip` must be two numbers"),
    ("HWS_momentum1", r"`momentum` must be a number in \[0, 1\)"),
    ("HWS_0epochs", "`epochs` must be a number >= 1"),
    ("HWS_noIS_clip0.5to2", "`clip` has no effect with `noIS`"),
    ("HWS_beta0_warmup3", "`warmup` has no effect with `beta0`"),
    ("HWS_explore1.5", r"`explore` must be a number in \[0, 1\], got 1.5"),
    ("HWS_beta0_explore0.1", "`explore` has no effect with `beta0`"),
    ("HWS_warmup20_20epochs", "`warmup` must be fewer than the 20 epochs of the training, got 20"),
    ("HWS_beta0_chi2", "`chi2` has no effect with `beta0`"),
    ("HWS_chi2_cvar0.1", "`chi2` has no effect with `cvar`"),
    ("HWS_beta10_cvar0.1", "`beta` has no effect with `cvar`"),
    ("HWS_doro0.1", "`doro` has no effect without `cvar<a>`"),
    ("HWS_cvar0.1_noIS", "`noIS` has no effect with `cvar`: only KL has weights"),
    ("HWS_chi2_exactIS", "`exactIS` has no effect with `chi2`: only KL has weights"),
    ("HWS_cvar1", r"`cvar` must be a number in \(0, 1\)"),
    ("HWS_cvar0", r"`cvar` must be a number in \(0, 1\)"),
    ("HWS_cvar0.1_doro1", r"`doro` must be a number in \[0, 1\)"),
    ("HWS_beta" + "9" * 400, "`beta` must be a number >= 0"),
    ("DRO_share1", r"`share` must be a number in \(0, 1\)"),
    ("DRO_share0.3_beta10", "`share` has no effect with `beta`"),
    ("DRO_share0.3_betaauto", "`share` has no effect with `betaauto`"),
    ("DRO_share0.3_cvar0.5", "`share` has no effect with `cvar`"),
    ("DRO_share0.3_chi2", "`share` has no effect with `chi2`"),
    ("DRO_earned0.3_beta10", "`earned` has no effect with `beta`"),
    ("DRO_hardLoss_memory0.5", "`memory` has no effect without the pooled hardness"),
    ("DRO_memory1", r"`memory` must be a number in \[0, 1\)"),
    ("DRO_share0.4_earned0.3", "`share` has no effect with `earned`"),
    ("DRO_hardest0.4_share0.3", "`hardest` has no effect with `share`"),
    ("DRO_hardest0.4_beta10", "`hardest` has no effect with `beta`"),
    ("DRO_rare0.5", "`rare` must be a number >= 1, got 0.5"),
    ("DRO_rare8", "must be written `nnUNetTrainerDRO`"),
    ("DRO_rare4_beta0", "`rare` has no effect with `beta`, which does not look at images"),
    ("DRO_share0.3_rare4", "`rare` has no effect with `share`, which does not look at images"),
    ("DRO_hardest0_rare1", "`hardest` has no effect with 0 where no image is looked at"),
    ("DRO_hardest0_sub1x2x2", "`hardest` has no effect with 0 where no image is looked at"),
    ("DRO_hardest1", r"`hardest` must be a number in \[0, 1\)"),
    ("DRO_earned0.3_rare4", "`rare` has no effect with `earned`"),
    ("DRO_hardest0.3_IS", "`hardest` has no effect with `IS`"),
    ("DRO_rare4_IS", "`rare` has no effect with `IS`, which does not look at images"),
    ("DRO_earned0.5_IS", "`earned` has no effect with `IS`, with which it is 0.5"),
    ("DRO_hardest0_momentum0.5", "`momentum` has no effect with `hardest0`: no loss decides"),
    ("DRO_rare4_beta10", "`rare` has no effect with `beta`"),
    ("DRO_rare4_sub1x2x2", "`rare` has no effect with `sub`"),
    ("DRO_hardCE", "`hardCE` has no effect without a share or beta"),
    ("DRO_hardest0.2", "must be written `nnUNetTrainerDRO`"),
    (
        "DRO_share0.5_exactIS",
        "`exactIS` has no effect without `IS`, which turns importance weights on",
    ),
    ("DRO_cvar0.5_IS", "`IS` has no effect with `cvar`: only KL has weights"),
    ("DRO_noIS", "`noIS` in `nnUNetTrainerDRO_noIS` is not an option of this trainer"),
    ("IW", "`column` must be a column of cases.csv, written after the trainer's name"),
    ("IW_2epochs", "`column` must be a column of cases.csv, written after the trainer's name"),
    ("IW_a__b", "a column whose name has no `__`"),
    ("IW_IS", r"`IS` in .* Rename a column that has an option's name between underscores"),
    (
        "GroupDRO_has_T2_lesion",
        r"`T2` in .* Rename a column that has an option's name between underscores",
    ),
    ("IW_a/b", "none of /"),
    *[(f"IW_a{letter}b", "no control character and none of /") for letter in '*?"<>|\0\n\t\x7f'],
    (
        "IW_centre_beta10",
        "`beta10` in .* is not an option of this trainer. Options, the column first",
    ),
    ("IW_centre_warmup3", "`warmup3` in .* is not an option of this trainer"),
    ("IW_centre_2epochs_poly1", "must be written `nnUNetTrainerIW_centre_poly1_2epochs`"),
    ("IW_a_power1.5", r"`power` must be a number in \[0, 1\], got 1.5"),
    ("IW_a_share1", r"`share` must be a number in \(0, 1\)"),
    ("IW_a_power0.5_share0.5", "must be written `nnUNetTrainerIW_a_share0.5_power0.5`"),
    (
        "IW_a_asWeights_power0.5",
        "`power` has no effect with `asWeights`, which leaves no groups. Leave it out",
    ),
    ("IW_a_share0.5_asWeights", "`share` has no effect with `asWeights`"),
    ("IW_a_earned0.5", "`earned0.5` in .* is not an option of this trainer"),
    ("IW_a_asweights", "`asweights` in .* must be written asWeights. Options, the column first"),
    ("GroupDRO_a_nu0", "`nu` must be a number > 0"),
    ("GroupDRO_a_asWeights", "`asWeights` in .* is not an option of this trainer"),
    ("LS_alpha0.6", r"`alpha` must be a number in \[0, 0.5\], got 0.6"),
    ("LS_T5", "`T5` in .* is not an option of this trainer"),
    ("LS_poly1", "`poly1` in .* is not an option of this trainer"),
    ("GILS_T0", r"`T` must be a number in \[1, 15\], got 0"),
    ("GILS_T16", r"`T` must be a number in \[1, 15\]"),
    ("GILS_eta0", "`eta` must be a number > 0"),
    ("GILS_rms0", "`rms` must be a number > 0"),
    ("GILS_warmup5_5epochs", "`warmup` must be fewer than the 5 epochs"),
    ("LS_warmup5", "`warmup5` in .* is not an option of this trainer"),
    ("GILS_eta1_T3", "must be written `nnUNetTrainerGILS_T3_eta1`"),
]


@pytest.mark.parametrize(("name", "message"), REFUSED)
def test_a_wrong_name_is_refused_and_the_valid_options_are_listed(name, message):
    with pytest.raises(ValueError, match=message) as error:
        parse_trainer_name(f"nnUNetTrainer{name}")
    if name.startswith("HWS"):
        listed = (
            "in this order: beta<x>, betaauto, chi2, cvar<a>, doro<e>, noIS, exactIS, normIS, clip"
        )
        assert listed in str(error.value)


@pytest.mark.parametrize(
    "kind",
    [DROOptions, HWSOptions, GroupDROOptions, IWOptions, LSOptions, GILSOptions, TrainerOptions],
)
def test_the_default_that_an_option_says_is_the_one_in_use(kind):
    defaults = {field.name: field.default for field in fields(kind)}
    for option in kind.known_options():
        default = option.default_in(kind)
        written = option.write(defaults[option.field]) if defaults[option.field] is not None else ""
        assert written == ("" if default == "off" else re.sub("<.*>", default, option.form)), (
            option.form
        )


def test_a_switch_that_is_on_anyway_is_no_option_of_a_trainer():
    words = {
        kind: {option.form for option in kind.known_options()} for kind in (DROOptions, HWSOptions)
    }
    assert ["hardPooled" in words[kind] for kind in (DROOptions, HWSOptions)] == [False, True]
    assert ["hardLoss" in words[kind] for kind in (DROOptions, HWSOptions)] == [True, False]


@pytest.mark.parametrize(
    ("suffix", "rule"),
    [
        ("_earned0.3", EarnedBall(0.0, 0.3)),
        ("_IS", EarnedBall(0.0, 0.5)),
        ("_share0.5", KLBall(0.0, 0.5)),
        ("_beta10", KL(10.0)),
        ("_chi2", Chi2(100.0)),
        ("_beta10_chi2", Chi2(10.0)),
        ("_betaauto", KL(0.0)),
        ("_cvar0.2", CVaR(0.2)),
        ("_beta0", UNIFORM),
    ],
)
def test_the_default_draws_by_the_share_unless_another_option_decides(suffix, rule):
    options = options_from_name(
        f"nnUNetTrainerDRO{suffix}", base="nnUNetTrainerDRO", kind=DROOptions
    )
    assert options.rule() == rule
    assert options.cap_of_kinds == 1
    assert options.history.hardness == "pooled"


def test_the_default_looks_at_images_and_at_the_hardest_that_are_learnt():
    options = DROOptions()

    rule = options.rule()

    assert (rule.part, rule.cap) == (0.2, 6.0)
    assert options.cap_of_kinds == 8
    assert options.history.hardness == "pooled"
    assert DROOptions(hardest=0.1).rule().part == 0.1


@pytest.mark.parametrize(
    ("options", "cap"),
    [
        (DROOptions(rare=1.0), 1),
        (DROOptions(subvolumes=(2, 1, 1)), 1),
        (DROOptions(rare=4.0), 4),
        (HWSOptions(), 1),
    ],
)
def test_images_are_left_out_where_there_are_none_or_on_request(options, cap):
    assert options.cap_of_kinds == cap


@pytest.mark.parametrize(
    ("n", "n_validation"), [(250, NNUNET_VALIDATION_ITERATIONS), (100, 20), (1, 1)]
)
def test_validation_iterations_are_in_nnunets_proportion(n, n_validation):
    assert HWSOptions(iterations=n).validation_iterations == n_validation


def test_the_default_length_is_that_of_nnunet(make_trainer):
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    plain = make_trainer(nnUNetTrainer)
    lengths = (plain.num_epochs, plain.num_iterations_per_epoch, plain.num_val_iterations_per_epoch)

    assert lengths == (NNUNET_EPOCHS, NNUNET_ITERATIONS, NNUNET_VALIDATION_ITERATIONS)


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        (
            "GILS_alpha0.3_T7_eta0.5_gamma0.01_la1_2epochs",
            GILSOptions,
            {
                "smoothing": 0.3,
                "steps": 7,
                "step_size": 0.5,
                "penalty": 0.01,
                "logit_adjustment": 1.0,
                "epochs": 2,
            },
        ),
        ("LS_alpha0.5", LSOptions, {"smoothing": 0.5}),
        ("IW_centre", IWOptions, {"column": "centre"}),
        ("IW_weights", IWOptions, {"column": "weights"}),
        (
            "IW_sampling_weights_asWeights",
            IWOptions,
            {"column": "sampling_weights", "as_weights": True},
        ),
        ("IW_a_share0.5_power0.2", IWOptions, {"column": "a", "share": 0.5, "power": 0.2}),
        (
            "IW_age_group_poly1_2epochs",
            IWOptions,
            {"column": "age_group", "polynomial_tail": 1, "epochs": 2},
        ),
        ("GroupDRO_field strength", GroupDROOptions, {"column": "field strength"}),
        (
            "GroupDRO_a_nu0.1_adj2_momentum0.5_hardCE",
            GroupDROOptions,
            {"column": "a", "nu": 0.1, "adjustment": 2.0, "momentum": 0.5, "hardness": "ce"},
        ),
    ],
)
def test_other_trainers_name_their_options_after_the_column(name, kind, options):
    base = f"nnUNetTrainer{name.split('_')[0]}"
    assert options_from_name(f"nnUNetTrainer{name}", base=base, kind=kind) == kind(**options)
    assert base + kind(**options).suffix() == f"nnUNetTrainer{name}"


def test_options_answer_for_every_trainer_without_a_look_at_their_class():
    for options in (TrainerOptions(), LSOptions(), GILSOptions(), IWOptions(column="centre")):
        assert options.importance is None
        assert not options.normalised
        assert not options.auto_beta
        assert options.subvolumes == (1, 1, 1)
        assert (options.history.momentum, options.history.warmup, options.history.hardness) == (
            0,
            0,
            "loss",
        )
    assert TrainerOptions().rule() is UNIFORM
    assert LSOptions(smoothing=0.3).rule() is UNIFORM
    assert (LSOptions(smoothing=0.3).smoothing, HWSOptions().smoothing) == (0.3, 0)

    told = GroupDROOptions(
        column="centre", nu=0.2, adjustment=3.0, momentum=0.5, warmup=2, hardness="ce"
    )
    assert (told.history.momentum, told.history.warmup, told.history.hardness) == (0.5, 2, "ce")

    rule = told.rule(["a", "b", "b"])
    assert (rule.names.tolist(), rule.nu, rule.adjustment) == (["a", "b"], 0.2, 3.0)

    probabilities = IWOptions(column="centre").rule(["a", "b", "b"]).probabilities(np.zeros(3))
    np.testing.assert_allclose(probabilities, [1 / 2, 1 / 4, 1 / 4])

    by_hardness = IWOptions(column="centre", share=0.3, power=0.2)
    rule = by_hardness.rule(["a", "b"])

    assert (rule.share, rule.power, rule.exploration) == (0.3, 0.2, DROOptions().exploration)
    assert by_hardness.history == History(hardness="pooled")
    assert IWOptions(column="centre", as_weights=True).rule(["1", "3"]).weights.tolist() == [
        0.25,
        0.75,
    ]


@pytest.mark.parametrize(
    ("options", "importance"),
    [
        ({}, ImportanceWeights(low=0.1, high=10.0)),
        ({"beta": 0.0}, ImportanceWeights(low=0.1, high=10.0)),
        (
            {"exact_ratio": True, "clip": (0.5, 2.0)},
            ImportanceWeights(low=0.5, high=2.0, exact=True),
        ),
        ({"momentum": 0.9}, ImportanceWeights(momentum=0.9)),
        ({"importance_sampling": False}, None),
        ({"chi2": True}, None),
        ({"cvar": 0.2}, None),
    ],
)
def test_options_say_the_importance_weights(options, importance):
    assert HWSOptions(**options).importance == importance


def test_a_polynomial_tail_is_refused_with_label_smoothing_in_code_too():
    with pytest.raises(ValueError, match="`poly` must be left out with label smoothing"):
        LSOptions(polynomial_tail=1.0)


def test_hardness_and_rare_images_decide_together_or_alone():
    weights = np.array([7.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.4])

    both = DROOptions(rare=8.0, hardest=0.1).rule(rarity=weights)
    alone = DROOptions(rare=8.0, hardest=0.0).rule(rarity=weights)

    assert both.part == 0.1
    np.testing.assert_array_equal(both.base, weights)
    np.testing.assert_allclose(8 * alone.probabilities(np.zeros(8)), weights)
