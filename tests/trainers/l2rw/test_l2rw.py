"""nnUNetTrainerL2RW: who is trusted, what a step does, and what is written."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from nnunet_dro.trainers.l2rw.nnUNetTrainerL2RW import trusted_batch_size, trusted_cases
from tests.trainers.draws import check_same_network, log_of, run_epoch

NAME = "nnUNetTrainerL2RW"


def cases_of(trainer):
    return [str(case) for case in trainer.do_split()[0]]


def test_trusted_are_the_training_cases_that_say_yes(make_trainer, preprocessed_table):
    trainer = make_trainer(NAME)
    cases = cases_of(trainer)

    preprocessed_table.write_text(
        f"case,trusted\n{cases[2]}, Yes \n{cases[0]},yes\n{cases[1]},no\n{cases[3]},\n"
    )

    assert trusted_cases(trainer, cases) == [cases[0], cases[2]], "no row and no entry are no trust"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "case,site\n{0},a\n",
            r"`trusted` must be a column of .*cases.csv, which has site. Add it: yes for cases",
        ),
        (
            "case,trusted\n{0},maybe\n",
            r"`trusted` of {0} in .*cases.csv must be yes or no, got 'maybe'. Correct it.",
        ),
        ("case,trusted\n{0},1\n", r"`trusted` of {0} in .* must be yes or no, got '1'"),
        (
            "case,trusted\n{0},no\n",
            r"must be yes for at least one of the 8 training cases of fold 0, got none. Check",
        ),
        (
            "case,trusted\n{validation},yes\n",
            r"training cases of fold 0, got yes only for other cases \({validation}",
        ),
    ],
)
def test_a_table_without_trusted_cases_stops_before_the_training(
    make_trainer, preprocessed_table, text, message
):
    trainer = make_trainer(NAME)
    training, validation = trainer.do_split()
    names = {"validation": validation[0]}

    preprocessed_table.write_text(text.format(training[0], **names))

    with pytest.raises(ValueError, match=message.format(training[0], **names)):
        trainer._check_before_training()


@pytest.mark.usefixtures("without_case_table")
def test_no_case_table_says_what_to_write(make_trainer):
    with pytest.raises(
        FileNotFoundError, match=r"`trusted` must be a column .* has no case table. Write "
    ):
        make_trainer(NAME).on_train_start()


def test_a_large_batch_has_few_trusted_cases():
    assert [trusted_batch_size(n) for n in (1, 2, 4, 5, 12, 50)] == [1, 2, 4, 4, 4, 6]


@pytest.mark.parametrize(("configuration", "n_trusted"), [("2d_small", 4), ("3d_small", 2)])
def test_the_trusted_batches_have_trusted_cases_alone(start, configuration, n_trusted):
    trainer, loader = start(NAME, configuration)
    names = (
        loader.generator.table.cases
        if hasattr(loader, "generator")
        else loader.data_loader.table.cases
    )
    own = trainer.dataloader_trusted

    trusted = getattr(own, "generator", None) or own.data_loader

    assert set(trusted.table.cases) == {"case_01", "case_04"} & set(names)

    usual = next(loader)
    for _ in range(5):
        batch = next(own)
        assert len(batch["data"]) == n_trusted
        assert batch["data"].shape[1:] == usual["data"].shape[1:]
        assert {str(case) for case in batch["keys"]} <= set(trusted.table.cases)


def gradient(trainer, batch, trusted):
    return trainer._learning().gradient(*((one["data"], one["target"]) for one in (batch, trusted)))


def one_step(trainer, batch, trusted):
    trainer.dataloader_trusted = iter([trusted])
    return trainer.train_step(batch)


def test_a_step_is_nnunets_step_on_the_weighted_losses(start):
    trainer, loader = start(NAME)
    batch = next(loader)
    trusted = next(trainer.dataloader_trusted)
    found = gradient(trainer, batch, trusted)
    other = start(NAME)[0]
    losses = other.loss.per_case(other.network(batch["data"]), batch["target"]).losses
    (found.weights * losses).sum().backward()
    torch.nn.utils.clip_grad_norm_(other.network.parameters(), 12)
    other.optimizer.step()

    loss = one_step(trainer, batch, trusted)["loss"]

    assert loss == pytest.approx(float(losses.detach().mean()), rel=1e-5), (
        "the loss that is shown has no weights"
    )

    check_same_network(trainer, other, rtol=1e-4, atol=1e-6)


def test_both_ways_to_the_weights_make_the_same_step(start):
    trainers, loaders = zip(*(start(NAME, "2d_small") for _ in range(2)), strict=True)
    batch = next(loaders[0])
    trusted = next(trainers[0].dataloader_trusted)
    for trainer, at_once in zip(trainers, (False, True), strict=True):
        trainer._learned = trainer._learning()
        trainer._learned.at_once = at_once
        one_step(trainer, batch, trusted)
        assert trainer._learned.at_once is at_once
    check_same_network(*trainers, rtol=1e-4, atol=1e-6)


def against(batch):
    """The same images with a reference in which the two labels and the background changed places."""
    return {**batch, "target": [(target + 1) % 3 for target in batch["target"]]}


def test_a_batch_that_does_not_help_makes_no_step_and_is_counted(start, tmp_path):
    trainer, loader = start(NAME)
    trainer.train_step(next(loader))  # momentum
    trusted = next(trainer.dataloader_trusted)
    for _ in range(
        20
    ):  # the network learns what the trusted cases say, so that their opposite is against it
        trainer._step_along(gradient(trainer, trusted, trusted))
    wrong = against(trusted)
    before = [parameter.clone() for parameter in trainer.network.parameters()]
    momentum = [state["momentum_buffer"].clone() for state in trainer.optimizer.state.values()]

    one_step(trainer, wrong, trusted)

    assert all(map(torch.equal, before, trainer.network.parameters())), (
        "no weight decay and no momentum, either"
    )

    buffers = (state["momentum_buffer"] for state in trainer.optimizer.state.values())
    assert all(torch.equal(old, new) for old, new in zip(momentum, buffers, strict=True))

    trainer.weights_log.end_epoch(0, tmp_path)
    assert trainer.weights_log.rows[-1]["n_without_step"] == 1

    trainer, loader = start(NAME, "2d_small")
    for _ in range(5):
        trainer.train_step(next(loader))

    assert trainer._learned.is_chosen
    assert "weights are computed " in log_of(trainer)


def test_wrong_references_weigh_less_than_right_ones(start):
    """The claim of Ren et al. 2018, on one batch: what contradicts the trusted cases is not learnt
    from."""
    trainer, loader = start(NAME)
    trusted = next(trainer.dataloader_trusted)
    for _ in range(10):
        trainer._step_along(gradient(trainer, trusted, trusted))
    right = next(loader)
    mixed = {
        "data": torch.cat([right["data"], right["data"]]),
        "target": [
            torch.cat(both) for both in zip(right["target"], against(right)["target"], strict=True)
        ],
    }
    found = gradient(trainer, mixed, trusted)

    n = len(right["data"])

    assert found.weights[:n].mean() > 3 * found.weights[n:].mean()


def test_an_overflow_in_half_precision_skips_the_step_and_lowers_the_scale(start):
    trainer, loader = start(NAME)
    trainer.grad_scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    before = [parameter.clone() for parameter in trainer.network.parameters()]

    trainer.train_step(next(loader))

    assert all(map(torch.equal, before, trainer.network.parameters()))
    assert trainer.grad_scaler.get_scale() == 2.0**126

    trainer.grad_scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    trainer._learned = None
    trainer.train_step(next(loader))

    assert not all(map(torch.equal, before, trainer.network.parameters()))


def test_the_scale_of_half_precision_cancels(start):
    trainer, loader = start(NAME)
    batch = next(loader)
    trusted = next(trainer.dataloader_trusted)
    one_step(trainer, batch, trusted)
    scaled = start(NAME)[0]
    scaled.grad_scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    one_step(scaled, batch, trusted)
    check_same_network(trainer, scaled, rtol=1e-4, atol=1e-6)


def test_the_weights_are_written_and_go_on_after_a_restart(make_trainer):
    trainer = make_trainer(f"{NAME}_3epochs_2iters")
    trainer.on_train_start()
    folder = Path(trainer.output_folder)
    for epoch in range(2):
        run_epoch(trainer, epoch)
    trainer.current_epoch = 1  # the second epoch is not in the checkpoint

    trainer.save_checkpoint(str(folder / "checkpoint_latest.pth"))

    assert "with 2 trusted cases of 8: case_01, case_04" in log_of(trainer)
    assert "Weights: 2 of 2 iterations made a step" in log_of(trainer)

    rows = pd.read_csv(folder / "weights.csv")
    assert len(rows) == 16
    assert rows["times_seen"].sum() == 2 * 2 * 2, "epochs, iterations, and cases of a batch"

    mean = (rows["weight"] * rows["times_seen"]).sum() / rows["times_seen"].sum()
    assert mean == pytest.approx(1, abs=1e-4), "relative weights have the mean 1"
    assert (folder / "weights.png").stat().st_size > 10_000

    resumed = make_trainer(f"{NAME}_3epochs_2iters")
    resumed.load_checkpoint(str(folder / "checkpoint_latest.pth"))
    resumed.on_train_start()

    assert [row["epoch"] for row in resumed.weights_log.rows] == list(range(resumed.current_epoch))
    assert len(pd.read_csv(folder / "weights.csv")) == 8 * resumed.current_epoch


def test_batch_norm_over_several_gpus_is_refused(make_trainer):
    trainer = make_trainer(NAME)
    trainer.is_ddp = True
    trainer.network = torch.nn.Module()

    trainer.network.module = torch.nn.Sequential(torch.nn.SyncBatchNorm(3))

    with pytest.raises(RuntimeError, match=r"mixes the cases of all GPUs. Train on one GPU"):
        trainer._learning()
