from nnunet_dro.trainers.logs.concentration import concentration_warnings
from nnunet_dro.trainers.logs.epoch_summary import HardnessSummary


def epochs(effective, losses=None):
    losses = losses or [0.0] * len(effective)
    return [
        HardnessSummary(epoch, n, clipped_share=0.0, refused_losses=0, mean_loss=loss)
        for epoch, (n, loss) in enumerate(zip(effective, losses, strict=True))
    ]


def test_few_effective_cases_are_said_once_each_time_they_begin():
    summaries = epochs([100.0, 9.9, 9.0, 50.0, 5.0])
    said = [concentration_warnings(summaries[: n + 1], 100) for n in range(5)]
    assert [len(warnings) for warnings in said] == [0, 1, 0, 0, 1]
    (warning,) = said[1]
    assert "9.9 of 100 cases are effective" in warning
    assert "`share<s>`" in warning
    assert "`explore<e>`" in warning


def test_a_mean_loss_that_rises_for_ten_epochs_while_the_sampler_concentrates_is_said():
    rising = [0.1 * epoch for epoch in range(12)]
    summaries = epochs([100.0 - epoch for epoch in range(12)], rising)
    said = [concentration_warnings(summaries[: n + 1], 100) for n in range(12)]
    assert [len(warnings) for warnings in said] == [0] * 10 + [1, 0]
    assert "has risen for 10 epochs" in said[10][0]


def test_a_mean_loss_that_rises_while_draws_spread_or_falls_once_is_not():
    rising = [0.1 * epoch for epoch in range(11)]
    assert not concentration_warnings(epochs([50.0 + epoch for epoch in range(11)], rising), 100)
    assert not concentration_warnings(epochs([100.0 - epoch for epoch in range(11)], [*rising[:-1], 0.5]), 100)


def test_without_any_epoch_nothing_is_said():
    assert concentration_warnings([], 100) == []
