from types import SimpleNamespace

import optuna
import pytest

from nnunet_dro.trainers.options import HWSOptions
from nnunet_dro.tuning.space import OFF, parse_space


def space(trainer, *options, epochs=20, iterations=None):
    return parse_space(trainer, options, epochs=epochs, iterations=iterations)


def test_name_is_the_one_nnunet_finds():
    from nnunet_dro.trainers.registry import trainer_class

    made = space(
        "HWS_noIS", "beta:1:200:log", "warmup:0:5", "momentum:0:0.9", "sub2x2x1", iterations=50
    )

    name = made.trainer_name({"beta": 12.3, "warmup": 2, "momentum": 0.25, "sub2x2x1": "sub2x2x1"})

    assert name == "nnUNetTrainerHWS_beta12.3_noIS_momentum0.25_warmup2_sub2x2x1_20epochs_50iters"
    assert trainer_class(name).options == HWSOptions(
        beta=12.3,
        importance_sampling=False,
        momentum=0.25,
        warmup=2,
        subvolumes=(2, 2, 1),
        epochs=20,
        iterations=50,
    )

    made = space("nnUNetTrainerHWS", "beta:1:200", "warmup:0:5", "chi2", epochs=None)
    assert made.trainer_name({"beta": 100.0, "warmup": 0, "chi2": OFF}) == "nnUNetTrainerHWS"

    made = space("GroupDRO_site", "nu:0.001:1:log")
    assert made.trainer_name({"nu": 0.1}) == "nnUNetTrainerGroupDRO_site_nu0.1_20epochs"

    made = space("HWS", "beta:0:100", "warmup:0:5", "chi2", "noIS")
    with pytest.raises(ValueError, match="`noIS` has no effect with `chi2`"):
        made.trainer_name({"chi2": "chi2", "noIS": "noIS"})

    # doro is refused without cvar, beta 0 is refused with warmup.
    space("HWS", "doro:0:0.3", "cvar:0.1:0.5")
    space("HWS", "doro:0.1:0.3", "cvar0.2")
    space("HWS", "beta:0:100", "warmup:0:5")


def test_sampled_numbers_have_three_digits_and_stay_in_the_range():
    made = space("HWS", "beta:1.2345:98765.4:log", "warmup:1:9")
    seen = []

    def objective(trial):
        values = made.suggest(trial)
        seen.append(values)
        return 0.0

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)).optimize(
        objective, n_trials=50
    )

    for values in seen:
        beta = values["beta"]
        assert 1.2345 <= beta <= 98765.4
        assert beta == float(f"{beta:.3g}")
        assert isinstance(values["warmup"], int)

    assert {values["warmup"] for values in seen} == set(range(1, 10)), "both ends are reached"

    n_low = sum(values["beta"] < 350 for values in seen)
    assert n_low == pytest.approx(25, abs=12), "half of them below, on a log scale"

    made = space("HWS", "beta:1.2345:1.2389")
    trial = SimpleNamespace(suggest_float=lambda name, low, high, log: 1.2346)

    assert made.suggest(trial) == {"beta": 1.2345}

    made = space("HWS", "hardCE", "hardPresent", "clip0.5to2")
    trial = SimpleNamespace(suggest_categorical=lambda name, choices: choices[-1])

    values = made.suggest(trial)

    assert made.names == ["hardCE|hardPresent", "clip0.5to2"]
    assert values == {"hardCE|hardPresent": "hardPresent", "clip0.5to2": "clip0.5to2"}
    assert made.trainer_name(values) == "nnUNetTrainerHWS_clip0.5to2_hardPresent_20epochs"


@pytest.mark.parametrize(
    ("trainer", "options", "message"),
    [
        ("ERM", ("beta:1:2",), "`trainer` must be one of DRO"),
        ("HWS_turbo", ("beta:1:2",), "`turbo`"),
        ("GroupDRO", ("nu:0.1:1",), "column"),
        ("HWS", (), "at least once"),
        ("HWS", ("gama:1:2",), "must name a numerical option of this trainer, got 'gama'"),
        ("HWS", ("nu:0.1:1",), "got 'nu'"),
        ("HWS", ("epochs:1:5",), "got 'epochs'"),
        ("HWS", ("clip:0:1",), "got 'clip'"),
        ("HWS", ("beta",), "written as in its name, got 'beta'"),
        ("HWS", ("20epochs",), "written as in its name"),
        ("HWS", ("beta:1",), "NAME:LOW:HIGH"),
        ("HWS", ("beta:1:2:lin",), "NAME:LOW:HIGH"),
        ("HWS", ("beta:one:2",), "NAME:LOW:HIGH"),
        ("HWS", ("beta:2:2",), "LOW < HIGH"),
        ("HWS", ("beta:1:nan",), "LOW < HIGH"),
        ("HWS", ("beta:1:inf",), "LOW < HIGH"),
        ("HWS", ("warmup:0.5:2",), "integers for warmup"),
        ("HWS", ("beta:0:2:log",), "LOW > 0 with log"),
        ("HWS", ("beta:1:2", "beta:1:2"), "once, got 'beta:1:2' twice"),
        ("HWS", ("beta:1:2", "beta5"), "once, got 'beta' twice"),
        ("HWS_beta10", ("beta:1:20",), "must not set what"),
        ("HWS", ("cvar:0:0.5",), "at 0: `cvar` must be a number in"),
        ("HWS", ("momentum:0:1",), "at 1: `momentum` must be"),
        ("HWS", ("warmup:0:20",), "at 20: `warmup` must be fewer than the 20 epochs"),
        ("HWS_noIS", ("chi2",), "got 'chi2': `noIS` has no effect with `chi2`"),
        ("HWS", ("cvar:0.1:0.5", "beta:1:10"), "has no effect with `cvar`"),
        ("HWS_10epochs", ("beta:1:10",), "`epochs` must be as in"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_line(trainer, options, message):
    with pytest.raises(ValueError) as error:
        space(trainer, *options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
