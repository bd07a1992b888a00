import pytest

from experiments.digits.plan import BETAS, EPOCHS, SKETCH_SEED, Run, planned_runs


def test_planned_runs_are_both_shares_with_every_beta_and_three_seeds():
    runs = planned_runs([0, 1, 2], quick=False)
    assert [(run.seed, run.share) for run in runs] == [(seed, share) for seed in range(3) for share in (0.01, 0.05)]
    assert {run.betas for run in runs} == {BETAS}
    assert {0.0, 10.0, 100.0} <= set(BETAS)
    assert all(run.epochs == EPOCHS[run.share] for run in runs)
    assert {run.learning_rate for run in runs} == {0.01}
    assert SKETCH_SEED not in {run.seed for run in runs}


def test_both_shares_have_the_same_test_images_of_the_rare_digit():
    assert [(run.n_rare, run.n_rare_test) for run in planned_runs([0], quick=False)] == [(4, 480), (20, 480)]
    assert Run(0.001, (0.0,), 0, 1).n_rare == 1


def test_run_measures_every_epoch_of_its_first_quarter_and_then_every_second_one():
    assert [epoch for epoch in range(1, 17) if Run(0.01, (0.0,), 0, 16).measures(epoch)] == [
        1,
        2,
        3,
        4,
        6,
        8,
        10,
        12,
        14,
        16,
    ]


@pytest.mark.parametrize("share", [0.0, -0.1, 0.06])
def test_run_refuses_a_share_that_is_none_or_too_large(share):
    with pytest.raises(ValueError, match=r"`share` must be in \(0, 0.05\]"):
        Run(share, (0.0,), 0, 1)


def test_run_refuses_a_largest_share_that_is_none_and_no_beta():
    with pytest.raises(ValueError, match=r"`largest_share` must be in \(0, 1\]"):
        Run(0.01, (0.0,), 0, 1, largest_share=1.5)
    with pytest.raises(ValueError, match="`betas` must have at least one number"):
        Run(0.01, (), 0, 1)
