from importlib.metadata import version

import numpy as np
import pytest
import torch
from batchgenerators.utilities.file_and_folder_operations import load_json, save_json
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
from nnunetv2.training.nnUNetTrainer.variants.data_augmentation.nnUNetTrainerDA5 import (
    nnUNetTrainerDA5,
)
from nnunetv2.training.nnUNetTrainer.variants.loss.nnUNetTrainerCELoss import nnUNetTrainerCELoss
from nnunetv2.training.nnUNetTrainer.variants.loss.nnUNetTrainerTopkLoss import (
    nnUNetTrainerDiceTopK10Loss,
)
from nnunetv2.training.nnUNetTrainer.variants.network_architecture.nnUNetTrainerNoDeepSupervision import (
    nnUNetTrainerNoDeepSupervision,
)

from nnunet_dro.losses import CaseByCaseLoss, ImportanceWeights
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from nnunet_dro.trainers.options import HWSOptions
from tests.trainers.draws import check_same_network, draws_of, end_epoch, log_of, redraw


class DROWithDA5(HardnessWeighted, nnUNetTrainerDA5):
    options = HWSOptions(beta=10.0)


class DROWithoutDeepSupervision(HardnessWeighted, nnUNetTrainerNoDeepSupervision):
    options = HWSOptions(beta=10.0)


class DROWithTopK(HardnessWeighted, nnUNetTrainerDiceTopK10Loss):
    """With the default options, which pool the hardness of the patches of a case."""


class DROWithCE(HardnessWeighted, nnUNetTrainerCELoss):
    """With a loss that never falls below 0."""


@pytest.mark.parametrize("configuration", ["2d_small", "3d_small"])
def test_a_step_stores_the_loss_of_each_case(start, configuration):
    trainer, loader = start("nnUNetTrainerHWS_beta10", configuration)
    batch = next(loader)
    outputs = [output.detach() for output in trainer.network(batch["data"])]
    expected = {
        int(index): float(
            trainer.loss.plain(
                [o[i : i + 1] for o in outputs], [t[i : i + 1] for t in batch["target"]]
            )
        )
        for i, index in enumerate(draws_of(batch).indices)
    }
    trainer.train_step(batch)

    table = trainer.hardness_log.table

    assert table.n_unseen == len(table) - len(expected)
    for index, loss in expected.items():
        assert table.losses[index] == pytest.approx(loss, rel=1e-4)


def test_a_step_weighs_by_the_stale_losses_that_the_batch_carries(start):
    """With Dice per case the gradient is the mean of the per-case gradients times their weights."""
    trainer, loader = start("nnUNetTrainerHWS_beta3_clip0.01to100_plainSGD")
    batch = next(loader)
    cases = trainer.loss.per_case(trainer.network(batch["data"]), batch["target"])
    # As if the batch were none of first visits, which are not weighed.
    redraw(
        batch,
        stale_losses=cases.hardness + torch.tensor([0.5, -0.5]),
        explored=torch.zeros(2),
        betas=torch.full((2,), 3.0),
    )
    trainer.hardness_log.table.update(
        [0, 1], [77.0, 77.0]
    )  # what the table says by now does not matter
    expected = cases.weighted(torch.exp(3 * torch.tensor([-0.5, 0.5])))
    parameters = list(trainer.network.parameters())
    gradients = torch.autograd.grad(expected, parameters, allow_unused=True)
    gradients = [
        torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True)
    ]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    before = [p.detach().clone() for p in parameters]
    trainer.train_step(batch)
    group = trainer.optimizer.param_groups[0]
    for old, new, gradient in zip(before, parameters, gradients, strict=True):
        step = group["lr"] * (gradient * min(1.0, 12 / float(norm)) + group["weight_decay"] * old)
        torch.testing.assert_close(new.detach(), old - step, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "n_clipped"), [("_beta3_clip0.5to2", 1), ("_beta3_exactIS_clip0.5to2", 0)]
)
def test_a_step_counts_the_weights_that_hit_the_clip(start, name, n_clipped):
    """e^1.5 is above 2; the exact ratio of a case that took 60 % of the draws is not."""
    trainer, loader = start(f"nnUNetTrainerHWS{name}")
    batch = next(loader)
    hardness = trainer.loss.per_case(
        trainer.network(batch["data"]), batch["target"]
    ).hardness.detach()
    redraw(batch, stale_losses=hardness - torch.tensor([0.5, 0.01]))
    redraw(
        batch,
        shares=torch.tensor([0.6, 0.1]),
        explored=torch.zeros(2),
        betas=torch.full((2,), 3.0),
    )
    trainer.hardness_log._start_epoch()

    trainer.train_step(batch)

    assert trainer.hardness_log._n_clipped == n_clipped


@pytest.mark.parametrize("name", ["_beta3_noIS", "_beta5_chi2", "_cvar0.3", "_cvar0.3_doro0.2"])
def test_every_rule_trains_without_weights_and_is_that_of_the_table(start, name):
    trainer, loader = start(f"nnUNetTrainerHWS{name}")
    plain = start(nnUNetTrainer)[0]
    batch = next(loader)
    redraw(batch, stale_losses=torch.tensor([-50.0, 50.0]))
    trainer.train_step(batch)
    plain.train_step(batch)

    check_same_network(trainer, plain, rtol=1e-5, atol=1e-6)

    assert trainer.hardness_log.table.rule == trainer.options.rule()


def test_warm_up_ends_with_its_epoch(start, make_trainer):
    """Uniform draws have weight 1, and the first epoch after the warm-up draws by hardness."""
    trainer, _ = start("nnUNetTrainerHWS_beta50_warmup2_5epochs")
    trainer.on_train_start()
    table = trainer.hardness_log.table
    table.update(np.arange(len(table)), np.linspace(0, 1, len(table)))
    uniform = []

    for epoch in range(4):
        trainer.current_epoch = epoch
        trainer.on_train_epoch_start()
        uniform.append(bool(np.allclose(table.probabilities(), 1 / len(table))))
        if epoch == 1:
            batch = next(trainer.dataloader_train)
            assert draws_of(batch).stale_losses.isnan().all()

    assert uniform == [True, True, False, False]
    assert log_of(trainer).count("The warm-up of 2 epochs is over") == 1
    assert f"nnunetv2 {version('nnunetv2')}, batchgenerators" in log_of(trainer)

    resumed = make_trainer("nnUNetTrainerHWS_beta50_warmup2_5epochs")
    resumed.initialize()
    resumed.current_epoch = 3
    resumed.get_dataloaders()

    assert not resumed.hardness_log.table.warming_up


def test_plain_sgd_has_no_momentum_and_the_default_is_nnunets(start):
    plain = start("nnUNetTrainerHWS_plainSGD")[0].optimizer.param_groups[0]
    usual = start("nnUNetTrainerHWS")[0].optimizer.param_groups[0]

    theirs = start(nnUNetTrainer)[0].optimizer.param_groups[0]

    assert (plain["momentum"], plain["nesterov"], plain["lr"]) == (0, False, theirs["lr"])
    for name in ("momentum", "nesterov", "lr", "weight_decay"):
        assert usual[name] == theirs[name]


@pytest.mark.parametrize("cls", [DROWithDA5, DROWithoutDeepSupervision, DROWithTopK, DROWithCE])
@pytest.mark.filterwarnings("ignore:size_average and reduce")
@pytest.mark.filterwarnings("ignore:This function is deprecated:DeprecationWarning:batchgenerators")
def test_mixin_works_with_nnunets_other_trainers(start, cls):
    trainer, loader = start(cls, "2d_small")
    for _ in range(3):
        step = trainer.train_step(next(loader))

    assert np.isfinite(step["loss"])
    assert np.isfinite(trainer.hardness_log.table.losses).any()

    is_unknown = cls in (DROWithTopK, DROWithCE)
    assert isinstance(trainer.loss.per_case, CaseByCaseLoss) == is_unknown
    assert trainer.loss.pooled is None
    assert ("The hardness of a case is the loss of its last patch" in log_of(trainer)) == is_unknown
    assert ("`hardest` looks for losses that fall" in log_of(trainer)) == (cls is DROWithCE)
    assert ("set options = DROOptions(share=0.5)" in log_of(trainer)) == (cls is DROWithTopK)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("nnUNetTrainerDRO_hardLoss", "`hardest` concludes"),
        ("nnUNetTrainerDRO_earned0.5_hardLoss", "`earned` concludes"),
        ("nnUNetTrainerDRO", ""),
        ("nnUNetTrainerDRO_hardPresent", ""),
        ("nnUNetTrainerDRO_share0.5_hardLoss", ""),
        ("nnUNetTrainerHWS", ""),
    ],
)
def test_the_log_warns_where_empty_patches_make_training_plain(start, name, word):
    trainer, _ = start(name, "2d_small")

    log = log_of(trainer)
    assert ("If a tenth of the last patches" in log) == bool(word)
    assert word in log


def test_mixin_says_when_a_trainer_does_not_use_its_loss(start):
    class OwnStep(nnUNetTrainer):
        def train_step(self, batch):
            return {"loss": np.array(0.0)}

    class Mixed(HardnessWeighted, OwnStep):
        pass

    trainer, loader = start(Mixed)

    with pytest.raises(RuntimeError, match=r"did not call `self\.loss`"):
        trainer.train_step(next(loader))


def test_a_nan_loss_is_refused_counted_and_logged(start):
    trainer, loader = start("nnUNetTrainerHWS_beta10_2epochs_2iters")
    batch = next(loader)
    batch["data"][0] = torch.nan
    first, second = draws_of(batch).indices.tolist()
    trainer.train_step(batch)

    table = trainer.hardness_log.table

    assert table.refused == 1
    assert np.isnan(table.losses[first])
    assert np.isfinite(table.losses[second])

    end_epoch(trainer)
    assert "refused losses 1" in log_of(trainer)


def test_a_fold_with_one_training_case_warns_and_trains(start, project):
    here = project("labels")
    splits_file = here.preprocessed / "splits_final.json"
    before = load_json(str(splits_file)) if splits_file.exists() else None
    save_json([{"train": ["case_00"], "val": ["case_01"]}], str(splits_file))

    try:
        trainer, loader = start("nnUNetTrainerHWS_beta10")
        for _ in range(3):
            trainer.train_step(next(loader))
    finally:
        splits_file.unlink()
        if before is not None:
            save_json(before, str(splits_file))

    log = log_of(trainer)
    assert "fold 0 has one training case, case_00" in log
    assert "With a single case, all draws are those of plain training." in log
    assert trainer.hardness_log.table.probabilities().tolist() == [1.0]


@pytest.mark.parametrize(
    ("name", "is_limited"),
    [("HWS_beta10", True), ("HWS_beta10_replace", False), ("DRO_beta0", False)],
)
def test_what_distinct_cases_leave_of_the_draws_is_said(start, name, is_limited):
    trainer, _ = start(f"nnUNetTrainer{name}", "2d_small")

    said = "No case is drawn more than 1.3 times as often as by chance"
    assert (said in log_of(trainer)) == is_limited


def test_scalars_go_to_the_other_loggers(start):
    class Recorder:
        def __init__(self):
            self.seen = {}

        def log(self, key, value, step):
            self.seen[key] = value

        def update_config(self, config):
            pass

    trainer, loader = start("nnUNetTrainerHWS_beta10")
    if not hasattr(trainer.logger, "loggers"):
        pytest.skip("this nnunetv2 has no other loggers")
    recorder = Recorder()
    trainer.logger.loggers.append(recorder)
    trainer.train_step(next(loader))

    end_epoch(trainer)

    assert recorder.seen["hardness/refused_losses"] == 0
    assert recorder.seen["hardness/effective_cases"] > 1
    assert recorder.seen["hardness/clipped_share"] == 0


def test_changed_case_list_is_one_line_in_the_log(start, make_trainer):
    trainer, loader = start("nnUNetTrainerHWS_beta10")
    trainer.train_step(next(loader))
    state = trainer.hardness_log.state_dict()
    other = make_trainer("nnUNetTrainerHWS_beta10", fold=1)
    other.initialize()
    other.logger.load_checkpoint({**other.logger.get_checkpoint(), "nnunet_dro": state})

    other.get_dataloaders()

    assert log_of(other).count("The training cases changed since the checkpoint") == 1
    assert set(other.hardness_log.table.cases) != set(trainer.hardness_log.table.cases)


def test_effective_gradient_is_that_of_the_robust_loss():
    """E_p[w_i grad l_i] is parallel to the gradient of R = log mean exp(beta l) / beta (Fidon et
    al. 2022, eq. 10)."""
    from nnunet_dro.sampling import HardnessTable

    torch.manual_seed(0)
    beta = 4.0
    n = 12
    features = torch.randn(n, 3)
    targets = torch.randn(n)
    weights = torch.randn(3, requires_grad=True)

    def losses_at(w):
        return (features @ w - targets).square() / 4

    stale = losses_at(weights.detach() + 0.1 * torch.randn(3))
    table = HardnessTable([str(i) for i in range(n)], beta=beta, exploration=0.0, replace=True)
    table.update(np.arange(n), stale.numpy())
    draws = table.draw(200_000, rng=np.random.default_rng(0))
    losses = losses_at(weights)
    importance = ImportanceWeights(low=0.0, high=1e6)
    fresh = losses[draws.indices]
    old = torch.from_numpy(draws.stale_losses).float()
    at_draw = {
        name: torch.from_numpy(getattr(draws, name)) for name in ("shares", "explored", "betas")
    }
    case_weights, _ = importance(fresh, old, **at_draw)
    (estimate,) = torch.autograd.grad((case_weights * fresh).mean(), weights, retain_graph=True)
    (exact,) = torch.autograd.grad(torch.logsumexp(beta * losses, 0) / beta, weights)

    # The factor between them is the ratio of the partition functions, which a learning rate
    # absorbs.
    ratio = torch.exp(torch.logsumexp(beta * losses.detach(), 0) - torch.logsumexp(beta * stale, 0))

    torch.testing.assert_close(estimate, ratio * exact, rtol=0.02, atol=0.02 * float(exact.norm()))
