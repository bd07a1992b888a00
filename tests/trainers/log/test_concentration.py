import numpy as np
import pytest

from nnunet_dro.sampling import (
    KL,
    Balanced,
    BalancedBall,
    ByWeight,
    Chi2,
    CVaR,
    EarnedBall,
    GroupDRO,
    Hardest,
    KLBall,
)
from nnunet_dro.trainers.log.concentration import concentration_warnings, falls
from nnunet_dro.trainers.log.epoch_table import group_column, saved_row


def epochs(effective, losses=None):
    losses = losses or [0.0] * len(effective)
    return [
        saved_row({"epoch": epoch, "effective_cases": n, "mean_loss": loss, "mean_staleness": 50.0})
        for epoch, (n, loss) in enumerate(zip(effective, losses, strict=True))
    ]


def test_few_effective_cases_are_said_once_each_time_they_begin():
    rows = epochs([100.0, 9.9, 9.0, 50.0, 5.0])
    said = [concentration_warnings(rows[: n + 1], 100) for n in range(5)]

    assert [len(warnings) for warnings in said] == [0, 1, 0, 0, 1]

    (warning,) = said[1]
    assert "9.9 of 100 cases are effective" in warning
    assert "`explore<e>`" in warning

    rows = epochs([1.0])
    rows[0]["mean_staleness"] = np.nan

    assert not concentration_warnings(rows, 501)
    assert concentration_warnings([], 100) == []


@pytest.mark.parametrize(
    ("rule", "cure"),
    [
        (Hardest(), "a smaller `hardest<d>` or `rare<c>`, or a larger `explore<e>`"),
        (EarnedBall(0.0, 0.5), "a larger `earned<s>`"),
        (KLBall(0.0, 0.5), "a larger `share<s>`"),
        (KL(100.0), "a smaller `beta<x>`"),
        (Chi2(100.0), "a smaller `beta<x>`"),
        (CVaR(0.05), "a larger `cvar<a>`"),
        (Balanced(["a", "b"]), "a smaller `power<x>`"),
        (BalancedBall(["a", "b"]), "a larger `share<s>`"),
        (GroupDRO(["a", "b"], nu=0.1), "Put small groups"),
        (ByWeight([1, 2]), "square roots"),
    ],
    ids=str,
)
def test_the_cure_for_few_effective_cases_is_one_of_the_rule(rule, cure):
    rows = epochs([9.0])
    assert cure in concentration_warnings(rows, 100, rule=rule)[0]

    rows[0]["mean_staleness"] = np.nan
    assert bool(concentration_warnings(rows, 100, rule=rule)) == (not rule.needs_losses), (
        "it does not wait for visits"
    )


def test_a_rising_mean_loss_is_said_only_while_the_sampler_concentrates():
    rising = [0.1 * epoch for epoch in range(12)]
    rows = epochs([100.0 - epoch for epoch in range(12)], rising)

    said = [concentration_warnings(rows[: n + 1], 100) for n in range(12)]

    assert [len(warnings) for warnings in said] == [0] * 10 + [1, 0]
    assert "has risen for 10 epochs" in said[10][0]

    rising = [0.1 * epoch for epoch in range(11)]
    assert not concentration_warnings(epochs([50.0 + epoch for epoch in range(11)], rising), 100)
    assert not concentration_warnings(
        epochs([100.0 - epoch for epoch in range(11)], [*rising[:-1], 0.5]), 100
    )


def falling(hopeless, *, drawn_more, n_epochs=40):
    """Losses and draws of 20 cases: those of the first five fall only if they are not hopeless."""
    speed = np.where(np.arange(20) < 5, 0.0 if hopeless else 0.02, 0.01)
    losses = {epoch: (1 - epoch * speed).astype(np.float32) for epoch in range(n_epochs)}
    draws = np.where(np.arange(20) < 5, 10 if drawn_more else 2, 2).astype(np.float32)
    return losses, dict.fromkeys(range(n_epochs), draws)


def test_falls_are_of_the_cases_drawn_more_often_and_of_the_others():
    losses, draws = falling(hopeless=True, drawn_more=True)
    assert falls(losses, draws) == {
        "fall_of_drawn": pytest.approx(0),
        "fall_of_others": pytest.approx(0.37),
    }

    losses, draws = falling(hopeless=False, drawn_more=True)
    assert falls(losses, draws) == {
        "fall_of_drawn": pytest.approx(0.74),
        "fall_of_others": pytest.approx(0.37),
    }

    losses, draws = falling(hopeless=True, drawn_more=True, n_epochs=15)
    losses |= {epoch: np.full(20, np.nan, dtype=np.float32) for epoch in range(5)}

    assert falls(losses, draws)["fall_of_others"] == pytest.approx(0.07)

    losses[5][3] = np.nan
    assert falls(losses, draws) == {}
    assert falls(*falling(hopeless=True, drawn_more=False)) == {}


@pytest.mark.parametrize(
    ("hopeless", "effective", "n_said"), [(True, 15.0, 1), (False, 15.0, 0), (True, 20.0, 0)]
)
def test_draws_that_go_to_cases_that_get_no_better_are_said_once(hopeless, effective, n_said):
    losses, draws = falling(hopeless, drawn_more=True)
    rows = []
    for epoch in range(40):
        so_far = {e: of_epoch for e, of_epoch in losses.items() if e <= epoch}
        rows.append(
            saved_row({"epoch": epoch, "effective_cases": effective, **falls(so_far, draws)})
        )

    said = [warning for n in range(1, 41) for warning in concentration_warnings(rows[:n], 20)]

    assert len(said) == n_said, (
        "and where all cases are effective, which are drawn more often is chance"
    )
    if n_said:
        assert (
            "do not get better: since the first epochs their loss has fallen by 0.000, that of the others by 0.1"
            in said[0]
        )
        assert "nnunet-dro suspects" in said[0]


def warnings_of_a_group(share_of_draws, n_draws=500, *, until=12, of="centre", **named):
    rows = [
        saved_row(
            {"epoch": e, "effective_cases": 90.0, group_column("draws", of, "C"): share_of_draws}
        )
        for e in range(until)
    ]
    return concentration_warnings(rows, 100, n_draws=n_draws, **named)


def test_draws_taken_from_a_small_group_are_said_once_with_what_to_use():
    shares = {("centre", "C"): 0.05, ("centre", "A"): 0.95}
    said = [w for n in range(13) for w in warnings_of_a_group(0.026, until=n, shares=shares)]

    (warning,) = said

    assert "centre=C (5.0 % of the cases, 2.6 % of the draws)" in warning
    assert "nnUNetTrainerIW_centre." in warning

    shares = {("centre", "C"): 0.05}
    assert not warnings_of_a_group(0.045, shares=shares)
    assert not warnings_of_a_group(0.026, n_draws=8, shares=shares)
    assert not warnings_of_a_group(0.1, shares={("centre", "C"): 0.5})
    assert not warnings_of_a_group(0.026)


def test_a_column_that_needs_a_change_before_it_names_a_trainer_is_said_so():
    shares = {("centre", "C"): 0.05, ("centre", "missing"): 0.95}
    (warning,) = warnings_of_a_group(0.026, until=10, shares=shares)
    assert "nnUNetTrainerIW_centre (first fill in what is missing in the column `cen" in warning

    (warning,) = warnings_of_a_group(0.026, until=10, shares={("dose=mg", "C"): 0.05}, of="dose=mg")
    assert '"dose=mg"=C (5.0 % of the cases' in warning
    assert "nnUNetTrainerIW_dose=mg" in warning
