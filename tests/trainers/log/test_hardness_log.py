import matplotlib
import numpy as np
import pandas as pd
import pytest

from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.sampling import CVaR, Hardest, HardnessTable
from nnunet_dro.trainers.data.subvolumes import Subvolumes
from nnunet_dro.trainers.log import hardness_log, pace
from nnunet_dro.trainers.log.case_curves import draw_hardness, save_picture
from nnunet_dro.trainers.log.hardness_log import HardnessLog
from nnunet_dro.trainers.log.lines import line_of_end
from tests.trainers.draws import cases_of_step

CASES = ["case, one", "001", "NA", "d"]


def log_of(cases=CASES, importance=None, groups=None, **table):
    return HardnessLog(HardnessTable(cases, **table), importance, groups=groups)


def log_with_epochs(folder, n_epochs, log=None, start=0):
    log = log or log_of(importance=ImportanceWeights(), beta=10.0)
    for epoch in range(start, n_epochs):
        indices = np.array([epoch % 4, (epoch + 1) % 4])
        losses = np.array([1.0, 0.5]) + 0.01 * epoch
        log.table.update(indices, losses)
        log.record(cases_of_step(indices, losses=losses))
        log.end_epoch(epoch, folder)
    return log


def read(folder):
    return pd.read_csv(
        folder / "hardness.csv",
        dtype={"case": str},
        keep_default_na=False,
        na_values={"loss": [""]},
    )


def test_csv_has_a_row_per_epoch_and_case(tmp_path):
    log = log_with_epochs(tmp_path, 3)
    rows = read(tmp_path)

    assert list(rows.columns) == ["epoch", "case", "loss", "probability", "draws"]
    assert rows["case"].tolist() == CASES * 3

    last = rows[rows["epoch"] == 2]
    np.testing.assert_allclose(last["loss"], log.table.losses, rtol=1e-5)
    np.testing.assert_allclose(last["probability"], log.table.probabilities(), rtol=1e-5)
    assert last["draws"].tolist() == [0, 0, 1, 1], "times drawn in this epoch alone"
    assert rows[rows["epoch"] == 0]["loss"].isna().tolist() == [False, False, True, True]


def test_summary_counts_effective_cases_clipped_weights_and_refused_losses(tmp_path):
    log = log_of(importance=ImportanceWeights(low=0.1, high=10.0), beta=10.0)
    log.table.update([0, 1, 2, 3, 0], [0.0, 0.0, 0.0, 0.0, np.nan])
    log.record(cases_of_step([0, 1], clipped=[1, 0]))
    log.record(cases_of_step([2, 3], clipped=[0, 1]))
    (line,) = log.end_epoch(0, tmp_path)

    row = log.rows[-1]

    assert (row["effective_cases"], row["clipped_share"], row["refused_losses"]) == (
        pytest.approx(4),
        0.5,
        1,
    )
    assert "effective cases 4.0 of 4, clipped weights 50.0 %, refused losses 1" in line

    log.end_epoch(1, tmp_path)
    assert log.rows[-1]["refused_losses"] == 0


def test_training_csv_has_a_row_per_epoch(tmp_path):
    log = log_with_epochs(tmp_path, 3)
    rows = pd.read_csv(tmp_path / "training.csv")

    assert rows["epoch"].tolist() == [0, 1, 2]

    losses = log.table.losses
    last = rows.iloc[-1]

    assert last["mean_loss"] == pytest.approx(losses.mean(), rel=1e-5)

    robust = np.log(np.mean(np.exp(10 * losses))) / 10
    assert last["robust_loss"] == pytest.approx(robust, rel=1e-5)
    assert last["worst_5_percent_bound"] == pytest.approx(robust + np.log(20) / 10, rel=1e-5)
    assert last["mean_loss"] < last["robust_loss"] < losses.max()

    (line,) = log.end_epoch(3, tmp_path)
    assert (
        f"mean loss {losses.mean():.3f}, robust loss {robust:.3f}, at most 5 % of the cases above"
        in line
    )


def test_training_csv_before_any_loss_and_with_beta_zero(tmp_path):
    log = log_of(beta=0.0)
    log.end_epoch(0, tmp_path)
    log.table.update([0, 1], [0.2, 0.4])
    (line,) = log.end_epoch(1, tmp_path)

    rows = pd.read_csv(tmp_path / "training.csv")

    assert rows["mean_loss"].isna().tolist() == [True, False]
    assert rows["robust_loss"].iloc[1] == pytest.approx(0.3)
    assert rows["worst_5_percent_bound"].iloc[1] == np.inf
    assert "at most" not in line


@pytest.mark.parametrize(("beta", "is_known"), [(0.0, False), (10.0, True)])
def test_falls_of_the_loss_are_known_where_losses_decide_the_draws(tmp_path, beta, is_known):
    last = log_with_epochs(tmp_path, 20, log_of(beta=beta)).rows[-1]

    assert np.isfinite([last["fall_of_drawn"], last["fall_of_others"]]).tolist() == [is_known] * 2


def test_training_csv_of_a_resumed_training_goes_on(tmp_path):
    first = log_with_epochs(tmp_path, 4)
    state = first.state_dict()
    # A checkpoint of an earlier version knows fewer scalars, and has those of groups apart.
    for row in state["epochs"][:2]:
        del row["mean_loss"], row["robust_loss"], row["worst_5_percent_bound"]
        row |= {"groups": {"draws[site=a]": 0.25}, "n_draws": 2}
    resumed = log_of(beta=10.0)
    resumed.load_state_dict(state)
    resumed.keep_epochs_before(3, tmp_path)
    log_with_epochs(tmp_path, 5, log=resumed, start=3)

    rows = pd.read_csv(tmp_path / "training.csv")

    assert rows["epoch"].tolist() == [0, 1, 2, 3, 4]
    assert rows["mean_loss"].isna().tolist() == [True, True, False, False, False]
    assert rows["draws[site=a]"].isna().tolist() == [False, False, True, True, True]
    assert "n_draws" not in rows


def test_line_names_the_cases_that_are_set_aside_and_the_five_hardest(tmp_path):
    log = log_of([f"c{i}" for i in range(10)], rule=CVaR(0.5, 0.2))
    log.table.update(np.arange(9), np.arange(9) / 10)

    (line,) = log.end_epoch(0, tmp_path)

    assert "set aside as suspected outliers: c8," in line, "of nine cases with a loss, 20 % is one"
    assert log.rows[-1]["robust_loss"] == pytest.approx(np.mean([0.7, 0.6, 0.5, 0.4]))
    assert log.rows[-1]["worst_5_percent_bound"] == np.inf
    assert line.endswith("hardest: c8 (0.800), c7 (0.700), c6 (0.600), c5 (0.500), c4 (0.400)")
    assert "never seen 1" in line


def test_a_changed_case_list_keeps_the_history_by_name(tmp_path):
    log_with_epochs(tmp_path, 2)
    log = log_of(["d", "new"], beta=10.0)

    log.keep_epochs_before(2, tmp_path)

    assert np.isnan(log._history[1][1])
    assert len(read(tmp_path)) == 2 * len(CASES), "what was written stays"


def test_picture_does_not_depend_on_the_style_that_nnunets_plots_leave(tmp_path):
    """`progress.png` sets seaborn's poster-sized style for the whole process."""
    log = log_with_epochs(tmp_path, 2)
    usual = tmp_path / "usual.png"
    poster = tmp_path / "poster.png"
    drawn = (log._history, CASES, log.rows, len(CASES), "cases")
    save_picture(usual, draw_hardness, *drawn)

    with matplotlib.rc_context({"font.size": 40, "axes.facecolor": "red"}):
        save_picture(poster, draw_hardness, *drawn)
        assert matplotlib.rcParams["font.size"] == 40

    assert poster.read_bytes() == usual.read_bytes()


def test_odd_names_are_logged_and_drawn(tmp_path):
    names = ["A$1_$B", "_hidden", "\udcff", "d"]
    log = log_with_epochs(tmp_path, 4, log=log_of(names, beta=10.0))

    assert b"\xff" in (tmp_path / "hardness.csv").read_bytes()

    figure = draw_hardness(log._history, names, log.rows, 8, "sub-volumes")
    assert {text.get_text().split()[0] for text in figure.axes[0].get_legend().texts} >= {
        "A$1_$B",
        "_hidden",
        "d",
    }
    assert figure.axes[1].get_ylim()[1] > 8


def table_at_the_end(losses):
    cases = [f"c{i}" for i in range(len(losses))]
    table = HardnessTable(cases, rule=Hardest())
    table.update(np.arange(len(losses)), losses)
    return table


def test_the_last_line_blames_only_cases_of_which_nothing_is_found():
    line = line_of_end(table_at_the_end([*[-0.9] * 8, -0.79, -0.78, 0.01]))

    assert "c10 (loss 0.01)." in line
    assert "-0.79" not in line
    assert "-0.78" not in line
    assert "nnunet-dro suspects" in line


def test_the_last_line_of_too_short_a_training_blames_no_case():
    line = line_of_end(table_at_the_end([0.1, 0.2, 0.3]))

    assert "their median is 0.20" in line
    # A Dice of 0.3 with a cross-entropy of 0.5 has that loss, too.
    assert "or the network is still unsure of what it finds" in line
    assert "train for longer" in line
    assert "suspects" not in line


def test_nothing_is_blamed_while_cases_are_unseen_or_where_all_are_learnt():
    table = HardnessTable(list("abc"), rule=Hardest())
    table.update([0, 1], [0.1, 0.2])

    assert line_of_end(table) is None
    assert line_of_end(table_at_the_end([-0.9, -0.9, -0.9])) is None
    assert line_of_end(table_at_the_end([-0.9, -0.8, -0.5])) is None


def test_sub_volumes_are_summed_up_per_case(tmp_path):
    """hardness.csv keeps a row per case; the hardest sub-volumes have a file of their own."""
    allowed = np.ones((3, 1, 2, 1), dtype=bool)
    allowed[1, 0, 0] = False
    subvolumes = Subvolumes(("a", "b", "c"), (1, 2, 1), allowed)
    table = HardnessTable(subvolumes.names, beta=2.0)
    log = HardnessLog(table, None, groups={"g": ["x", "y", "x"]}, subvolumes=subvolumes)
    log.table.update(np.arange(4), [0.1, 0.3, 0.7, 0.2])  # the last of five was never seen
    log.record(cases_of_step([0, 1, 2, 2]))
    (line,) = log.end_epoch(0, tmp_path)

    rows = read(tmp_path)

    assert rows["case"].tolist() == ["a", "b", "c"]
    assert rows["loss"].tolist() == pytest.approx([0.2, 0.7, 0.2])
    assert rows["draws"].tolist() == [2, 2, 0]
    assert rows["probability"].tolist() == pytest.approx([0, 0, 1])

    listed = pd.read_csv(tmp_path / "subvolumes.csv")
    assert listed["subvolume"].tolist() == ["b@0,1,0", "a@0,1,0", "c@0,0,0", "a@0,0,0", "c@0,1,0"]
    assert listed["loss"].isna().tolist() == [False] * 4 + [True]

    groups = {"draws[g=x]": 0.5, "draws[g=y]": 0.5, "loss[g=x]": 0.2, "loss[g=y]": 0.7}
    assert {name: log.rows[-1][name] for name in groups} == pytest.approx(groups)
    assert "effective sub-volumes 1.0 of 5" in line
    assert "hardest: b@0,1,0 (0.700)" in line


def test_training_csv_has_a_column_for_every_group_that_was_ever_there(tmp_path):
    log = log_of(groups={"site": ["a", "a", "b", "b"]}, beta=1.0)
    log.record(cases_of_step([0, 2, 3]))
    log.end_epoch(0, tmp_path)
    resumed = log_of(groups={"site": ["a", "a", "c", "c"]}, beta=1.0)
    resumed.load_state_dict(log.state_dict())
    resumed.end_epoch(1, tmp_path)

    rows = pd.read_csv(tmp_path / "training.csv")

    assert rows["draws[site=a]"].tolist() == pytest.approx([1 / 3, 0], abs=1e-5)
    assert rows["draws[site=b]"].isna().tolist() == [False, True]
    assert rows["draws[site=c]"].isna().tolist() == [True, False]
    assert "loss[site=b]" in rows, "not known, but there"


def test_no_two_groups_have_one_column_of_training_csv(tmp_path):
    log = log_of(groups={"a": ["b=c", "b=c", "d", "d"], "a=b": ["d", "d", "c", "c"]}, beta=1.0)
    log.record(cases_of_step([0, 2, 3]))
    log.end_epoch(0, tmp_path)

    (row,) = pd.read_csv(tmp_path / "training.csv").to_dict("records")

    assert [row["draws[a=b=c]"], row['draws["a=b"=c]']] == pytest.approx([1 / 3, 2 / 3], abs=1e-5)
    assert [row["draws[a=d]"], row['draws["a=b"=d]']] == pytest.approx([2 / 3, 1 / 3], abs=1e-5)


def test_mean_weight_and_beta_are_in_the_summary(tmp_path):
    log = log_of(importance=ImportanceWeights(), beta=10.0)
    for weight in (0.5, 2.5):
        log.record(cases_of_step([0], weights=[weight]))

    (line,) = log.end_epoch(0, tmp_path)

    assert (log.rows[-1]["mean_weight"], log.rows[-1]["beta"]) == (1.5, 10.0)
    assert "beta 10, effective cases" in line

    other = log_of(rule=CVaR(0.5))
    other.end_epoch(0, tmp_path)

    assert np.isnan([other.rows[-1]["mean_weight"], other.rows[-1]["beta"]]).all()


def test_staleness_is_in_training_csv_once_all_cases_were_seen(tmp_path):
    log = log_of(beta=1.0)
    log.table.update([0, 1, 2], [0.1, 0.2, 0.3])
    log.end_epoch(0, tmp_path)
    log.table.update([3, 0], [0.1, 0.2])
    log.table.update([3, 1], [0.1, 0.2])
    log.end_epoch(1, tmp_path)

    rows = pd.read_csv(tmp_path / "training.csv")

    assert rows["mean_staleness"].isna().tolist() == [True, False]
    assert rows["largest_staleness"].isna().tolist() == [True, False]
    assert rows["mean_staleness"].iloc[1] == pytest.approx((1 + 0 + 2 + 0) / 4)
    assert rows["largest_staleness"].iloc[1] == 2


def test_line_names_the_oldest_loss_when_it_is_very_old(tmp_path):
    """Of four cases and one draw per iteration, fifty passes are 200 iterations."""
    log = log_of(beta=1.0)
    log.table.update(np.arange(4), np.zeros(4))

    for epoch, n_steps in enumerate((200, 1)):
        for _ in range(n_steps):
            for case in (0, 1, 3):
                log.table.update([case], [0.0])
                log.record(cases_of_step([case]))
        (line,) = log.end_epoch(epoch, tmp_path)
        assert "oldest loss NA (" in line

    assert "oldest loss NA (603 iterations)" in line

    log.table.update([2], [0.0])
    log.record(cases_of_step([2]))

    assert "oldest loss" not in log.end_epoch(2, tmp_path)[0]


#: Few rows and epochs, so that the log of a small training is thinned.
N_THINNED = 12


@pytest.fixture
def thinned(monkeypatch):
    """Logs of 12 epochs get the rows of four cases every fourth epoch, and at the end."""
    monkeypatch.setattr(pace, "MOST_ROWS", 12)
    monkeypatch.setattr(pace, "FEWEST_EPOCHS", 3)
    monkeypatch.setattr(hardness_log, "save_picture", lambda *_: None)


def thinned_log():
    return HardnessLog(HardnessTable(CASES, beta=10.0), None, n_epochs=N_THINNED)


def test_a_large_log_has_every_so_many_epochs_and_all_draws(tmp_path, thinned):
    log_with_epochs(tmp_path, N_THINNED, log=thinned_log())
    rows = read(tmp_path)
    training = pd.read_csv(tmp_path / "training.csv")

    assert rows["epoch"].unique().tolist() == [0, 4, 8, 11]
    assert rows.groupby("epoch")["draws"].sum().tolist() == [2, 8, 8, 6]
    assert training["epoch"].tolist() == list(range(N_THINNED))


@pytest.mark.parametrize("at", range(1, N_THINNED))
def test_a_resumed_large_log_is_that_of_a_whole_training(tmp_path, thinned, at):
    """The checkpoint is older than the log: what was written since is written again."""
    (tmp_path / "whole").mkdir()
    whole = log_with_epochs(tmp_path / "whole", N_THINNED, log=thinned_log())
    first = log_with_epochs(tmp_path, at, log=thinned_log())
    state = first.state_dict()
    log_with_epochs(tmp_path, N_THINNED, log=first, start=at)

    resumed = thinned_log()
    resumed.load_state_dict(state)
    resumed.keep_epochs_before(at, tmp_path)
    log_with_epochs(tmp_path, N_THINNED, log=resumed, start=at)

    expected = (tmp_path / "whole" / "hardness.csv").read_bytes()
    assert (tmp_path / "hardness.csv").read_bytes() == expected
    assert list(resumed._history) == list(whole._history)
    np.testing.assert_equal(resumed.rows, whole.rows)


@pytest.mark.parametrize(
    ("n_cases", "n_epochs", "expected"),
    [(400, 1000, 1), (100_000, 100, 1), (5000, 1000, 16), (10**6, 1000, 8 * 2)],
)
def test_small_and_short_trainings_keep_all_epochs(n_cases, n_epochs, expected):
    assert pace.epochs_per_entry(n_cases, n_epochs) == expected


def test_pictures_take_a_small_share_of_the_time_and_the_last_is_drawn(tmp_path, monkeypatch):
    drawn = []

    def draw(path, *data):
        drawn.append(max(data[1]))
        clock.append(clock[-1] + 1.0)

    clock = [0.0]
    monkeypatch.setattr(hardness_log, "save_picture", draw)
    monkeypatch.setattr(pace.time, "monotonic", lambda: clock[-1])
    log = HardnessLog(HardnessTable(CASES), None, n_epochs=300)
    for epoch in range(300):
        clock.append(clock[-1] + 1.0)
        log.end_epoch(epoch, tmp_path)

    assert drawn == [0, 100, 200, 299]
