import pytest

from nnunet_dro.nnunet.training import TrainingFailedError, find_target, train
from tests.tuning.conftest import Fake

NAME = "nnUNetTrainerHWS_beta40_3epochs"


def run(fake: Fake, watch=lambda epochs: None, *, name=NAME):
    target = find_target("7", "2d", "0", plans="nnUNetPlans")
    train(target, name, device="cpu", log=fake.root / "logs" / "trial.txt", watch=watch)
    return target.fold_folder(name)


def test_training_is_watched_and_validated(fake):
    seen = []
    folder = run(fake, seen.append)

    assert (folder / "validation" / "summary.json").exists()
    assert list(seen[-1].pseudo_dice) == [0, 1, 2]
    assert fake.calls == [NAME]

    log = (fake.root / "logs" / "trial.txt").read_text()
    command = f"nnUNetv2_train Dataset007_Fake 2d 0 -tr {NAME} -p nnUNetPlans -device cpu"

    assert log.startswith(f"$ {command}\ntraining starts")


@pytest.mark.parametrize(
    ("lacking", "calls"),
    [
        ((), []),
        (("validation/summary.json",), [f"{NAME} --val"]),
        (("validation/summary.json", "checkpoint_final.pth"), [f"{NAME} --c"]),
    ],
)
def test_training_goes_on_where_it_ended_and_is_not_begun_again(fake, lacking, calls):
    folder = run(fake)
    seen = []
    for file in lacking:
        (folder / file).unlink()

    run(fake, seen.append)

    assert fake.calls == [NAME, *calls]
    assert list(seen[-1].pseudo_dice) == [0, 1, 2]


def test_logs_of_a_training_without_a_checkpoint_do_not_count(fake):
    folder = run(fake)
    for file in ("checkpoint_final.pth", "checkpoint_best.pth", "validation/summary.json"):
        (folder / file).unlink()
    log = folder / "training_log_2026_9_1_01_02_03.txt"
    log.write_text(log.read_text().replace("Epoch 2", "Epoch 7"))
    seen = []

    run(fake, seen.append)

    assert fake.calls == [NAME, NAME]
    assert not any(7 in epochs.pseudo_dice for epochs in seen), (
        "of this start, not of the one before"
    )


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "crash",
            r"nnUNetv2_train ended with exit code 1: RuntimeError: CUDA out of memory \(log: .*/logs/trial.txt\)$",
        ),
        ("empty", "must leave validation predictions"),
    ],
)
def test_failure_quotes_the_last_line_or_says_what_lacks(fake, monkeypatch, kind, message):
    monkeypatch.setenv("FAKE", f'{{"{kind}": ["beta40"]}}')
    with pytest.raises(TrainingFailedError, match=message) as error:
        run(fake)
    if kind == "crash":
        assert error.value.lines == ["training starts", "RuntimeError: CUDA out of memory"]
