"""What every trainer of the registry must do, alone and with each of its options."""

import os

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
from scipy.stats import chisquare

from nnunet_dro.losses import PooledHardness
from nnunet_dro.sampling import GroupRule
from tests.trainers.draws import check_same_network, draws_of, log_of, redraw, run_epoch
from tests.trainers.names import ALL_NAMES, PLAIN_NAMES

#: Every trainer with every kind of labels and in 2d and 3d, and every kind in both; all trainers have
#: regions with an ignore label in 2d below, where each option is tried.
TRAININGS = [
    (name, ["2d_small", "3d_small"][(i + j) % 2], kind)
    for i, name in enumerate(PLAIN_NAMES)
    for j, kind in enumerate(["labels", "regions", "ignore"])
] + [(PLAIN_NAMES[0], "3d_small", "regions_ignore")]


def fill(table):
    """As if every case had been seen."""
    table.update(np.arange(len(table)), np.random.default_rng(1).normal(0, 0.1, size=len(table)))


def check_steps(trainer, loader, n_steps=2):
    before = [p.detach().clone() for p in trainer.network.parameters()]
    for _ in range(n_steps):
        batch = next(loader)
        loss = trainer.train_step(batch)["loss"]
        assert np.isfinite(loss)
        assert np.isfinite(trainer.hardness_log.table.losses[draws_of(batch).indices]).all()
    assert all(p.isfinite().all() for p in trainer.network.parameters())
    changed = [
        not torch.equal(old, new)
        for old, new in zip(before, trainer.network.parameters(), strict=True)
    ]
    assert np.mean(changed) > 0.9


def check_that_ranks_draw_alike(*ranks):
    """After the exchange each rank has all cases of the batch; its table must say the same as the
    others'."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        indices = rng.integers(len(ranks[0].hardness_log.table), size=2)
        losses = rng.normal(size=2)
        for trainer in ranks:
            trainer.hardness_log.table.update(indices, losses)
    for trainer in ranks:
        trainer.hardness_log.table.replace = trainer.hardness_log.table.warming_up = False
        trainer.estimate_beta()
    mine, theirs = (trainer.hardness_log.table for trainer in ranks)
    np.testing.assert_array_equal(mine.probabilities(), theirs.probabilities())
    draws = [table.draw(3, rng=np.random.default_rng(3)) for table in (mine, theirs)]
    np.testing.assert_array_equal(draws[0].indices, draws[1].indices)
    np.testing.assert_array_equal(draws[0].betas, draws[1].betas)


@pytest.mark.parametrize(("name", "configuration", "kind"), TRAININGS)
def test_it_trains_in_2d_and_3d_with_labels_regions_and_ignore_label(
    start, name, configuration, kind
):
    check_steps(*start(name, configuration, kind))


@pytest.mark.parametrize("name", ALL_NAMES)
def test_it_trains_with_each_option_draws_as_it_says_and_goes_on(
    start, make_trainer, monkeypatch, name
):
    monkeypatch.setattr(
        Figure, "savefig", lambda *_, **__: None
    )  # half of the time; the tests of the logs draw
    trainer, loader = start(name, "2d_small", "regions_ignore")
    trainer.on_train_start()
    trainer.on_train_epoch_start()
    table = trainer.hardness_log.table
    fill(table)
    check_steps(trainer, loader)
    trainer.on_train_epoch_end([{"loss": np.array(0.0)}])

    rng = np.random.default_rng(0)
    expected = table.probabilities()
    table.replace = True  # many independent draws at a time
    indices = table.draw(20_000, rng=rng).indices
    counts = np.bincount(indices, minlength=len(table))

    drawn = expected > 1e-3

    assert counts[~drawn].sum() < 200, "the exploration floor at most"

    if drawn.sum() > 1:  # beta 100 may leave one case
        share = expected[drawn] / expected[drawn].sum()
        assert chisquare(counts[drawn], share * counts[drawn].sum()).pvalue > 1e-4

    path = os.path.join(trainer.output_folder, "checkpoint_latest.pth")
    trainer.current_epoch += 1
    trainer.loss.mean_weight = 2.5
    trainer.save_checkpoint(path)
    resumed = make_trainer(name, "2d_small", "regions_ignore")
    resumed.load_checkpoint(path)
    resumed.get_dataloaders()
    again = resumed.hardness_log.table

    np.testing.assert_array_equal(again.losses, table.losses)

    check_same_network(resumed, trainer)
    if trainer.options.normalised:
        assert resumed.loss.mean_weight == 2.5
    if trainer.loss.pooled is not None:
        torch.testing.assert_close(resumed.loss.pooled._sums, trainer.loss.pooled._sums)
    if "warmup" not in name:
        # The search of a beta that begins elsewhere ends within 1e-10 of the other.
        np.testing.assert_allclose(again.probabilities(), expected, rtol=1e-9)
    if isinstance(table.rule, GroupRule):
        np.testing.assert_array_equal(again.rule.weights, table.rule.weights)

    check_that_ranks_draw_alike(trainer, resumed)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("LS", "Cases are drawn uniformly: 8 cases (8 never seen)"),
        ("GILS", "Cases are drawn uniformly: 8 cases"),
        ("L2RW", "Cases are drawn uniformly: 8 cases"),
        ("HWS_beta0", "Cases are drawn uniformly: 8 cases"),
        (
            "HWS_beta3",
            "Hardness weighted sampling: 8 cases (8 never seen), beta 3, importance weights cl",
        ),
        ("HWS_betaauto", "Hardness weighted sampling: 8 cases"),
        (
            "IW_site",
            "Cases are drawn by group: 8 cases (8 never seen), each of 2 groups equally often",
        ),
        (
            "IW_site_share0.5",
            "Hardness weighted sampling: 8 cases (8 never seen), each of 2 groups equally",
        ),
        (
            "IW_number_asWeights",
            "Cases are drawn by weight: 8 cases (8 never seen), each in proportion",
        ),
    ],
)
def test_the_log_says_how_cases_are_drawn(make_trainer, name, line):
    trainer = make_trainer(f"nnUNetTrainer{name}")
    trainer.on_train_start()

    log = log_of(trainer)

    assert line in log
    assert log.count("Cases are drawn") + log.count("Hardness weighted sampling") == 1


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_validation_is_nnunets(make_trainer, name):
    trainer = make_trainer(name)
    trainer.initialize()
    plain = make_trainer(nnUNetTrainer)

    plain.initialize()

    assert type(trainer.loss.plain) is type(plain.loss)

    torch.manual_seed(0)
    outputs = [torch.randn(2, 3, 8, 8, 8) for _ in range(len(plain.loss.weight_factors))]
    target = [torch.randint(0, 3, (2, 1, 8, 8, 8)) for _ in outputs]

    assert float(trainer.loss(outputs, target)) == float(plain.loss(outputs, target))


@pytest.mark.parametrize("name", ["nnUNetTrainerHWS_la1_poly1", "nnUNetTrainerGroupDRO_site_vs0.5"])
def test_the_adjusted_cross_entropy_is_trained_and_not_the_plain_one(start, name):
    trainer, loader = start(name)
    batch = next(loader)
    outputs = [output.detach() for output in trainer.network(batch["data"])]
    ones = torch.ones(len(batch["data"]))

    adjusted = trainer.loss.per_case(outputs, batch["target"]).weighted(ones)

    assert abs(float(adjusted - trainer.loss.plain(outputs, batch["target"]))) > 1e-3
    assert float(trainer.train_step(batch)["loss"]) == pytest.approx(float(adjusted), rel=1e-5)


def test_a_betaauto_training_estimates_beta_after_each_epoch(start):
    trainer, loader = start("nnUNetTrainerHWS_betaauto_3epochs_4iters")
    assert draws_of(next(loader)).betas.tolist() == [0, 0]

    trainer.on_train_start()
    table = trainer.hardness_log.table
    betas = []
    for epoch in range(3):
        if epoch == 1:
            fill(table)
        run_epoch(trainer, epoch, n_steps=1)
        betas.append(trainer.hardness_log.rows[-1]["beta"])

    assert betas[0] == 0, "cases are unseen"
    assert betas[1] > 0
    assert betas[2] == pytest.approx(table.estimate_beta())
    assert draws_of(next(trainer.dataloader_train)).betas.tolist() == pytest.approx([betas[2]] * 2)
    assert f"beta {betas[2]:.4g}, effective cases" in log_of(trainer)


def test_normalised_weights_keep_the_size_of_the_step(start):
    """The running mean of the weights divides them; the gradient is that of the weighted loss over
    it."""
    trainer, loader = start("nnUNetTrainerHWS_beta3_normIS_clip0.01to100_plainSGD")
    trainer.loss.mean_weight = 4.0
    batch = next(loader)
    cases = trainer.loss.per_case(trainer.network(batch["data"]), batch["target"])
    redraw(batch, stale_losses=cases.hardness - torch.tensor([0.5, 0.2]))
    redraw(batch, betas=torch.tensor([3.0, 3.0]), explored=torch.zeros(2))
    weights = torch.exp(3 * torch.tensor([0.5, 0.2]))

    with trainer.loss.drawn(batch):
        loss = trainer.loss(trainer.network(batch["data"]), batch["target"])

    torch.testing.assert_close(loss, cases.weighted(weights / 4), rtol=1e-4, atol=1e-6)

    found, _ = trainer.loss.step()
    assert float(found.weights.mean()) == pytest.approx(float(weights.mean()), rel=1e-4)
    assert trainer.loss.mean_weight == pytest.approx(
        4 + 0.01 * (float(weights.mean()) - 4), rel=1e-5
    )


@pytest.mark.parametrize(("loss", "is_named"), [(0.31, True), (-0.5, False)])
def test_at_the_end_the_log_names_what_was_too_hard_to_be_drawn_more(make_trainer, loss, is_named):
    trainer = make_trainer("nnUNetTrainerDRO_1epochs_1iters")
    trainer.on_train_start()
    table = trainer.hardness_log.table
    table.update(np.arange(8), np.append(np.full(7, -0.8), loss))

    trainer.on_train_end()

    assert (f"{table.cases[7]} (loss 0.31)" in log_of(trainer)) == is_named


def test_the_default_trainer_pools_the_hardness_of_its_cases(start):
    """After a second visit the stale loss is that of both patches; the hardest get nothing until
    they are learnt."""
    trainer, loader = start("nnUNetTrainerDRO")
    table = trainer.hardness_log.table
    pooled = PooledHardness(8, memory=0.9)

    for _ in range(6):
        batch = next(loader)
        indices = draws_of(batch).indices
        with torch.no_grad():
            expected = pooled(
                indices, trainer.loss.per_case(trainer.network(batch["data"]), batch["target"])
            )
        trainer.train_step(batch)
        np.testing.assert_allclose(table.losses[indices], expected, rtol=1e-4)

    assert table.rule.now.earned == 0
    assert str(table.rule).startswith("20 % of the draws for the hardest cases")


def test_a_training_of_other_options_is_not_continued(start, make_trainer, tmp_path):
    trainer, loader = start("nnUNetTrainerHWS_beta10")
    trainer.train_step(next(loader))
    trainer.save_checkpoint(str(tmp_path / "checkpoint.pth"))
    other = make_trainer("nnUNetTrainerDRO_beta10")

    other.load_checkpoint(str(tmp_path / "checkpoint.pth"))

    with pytest.raises(ValueError, match="continue with -tr nnUNetTrainerHWS_beta10 --c"):
        other.on_train_start()
