from experiments.factorial.settings import BETAS, MOMENTA, NESTEROV, SGD, settings
from nnunet_dro.trainers.registry import parse_trainer_name


def test_every_corner_is_a_trainer_of_its_own():
    corners = settings()
    assert len(corners) == 2 * (1 + len(BETAS) * 2 * len(MOMENTA)) + 2
    assert (
        len({corner.name for corner in corners})
        == len({corner.trainer for corner in corners})
        == len(corners)
    )

    for corner in corners:
        _, options = parse_trainer_name(f"{corner.trainer}_10epochs_100iters")
        if corner.beta:  # otherwise all weights are 1
            assert (options.importance is not None) == corner.weights
        assert options.history.momentum == corner.momentum
        assert options.history.hardness == "loss"
        assert options.plain_sgd == (corner.optimiser == SGD)
        # nnU-Net's own if there is none.
        assert (options.learning_rate or 0.01) == corner.rate
        assert corner.rate == 0.01 or corner.optimiser != NESTEROV
        _, sampling = parse_trainer_name(corner.sampling)
        assert sampling.rule() == options.rule()
        assert not sampling.plain_sgd
