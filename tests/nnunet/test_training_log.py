import os

import pytest

from nnunet_dro.nnunet.training import read_epochs

# As nnU-Net 2.8 writes it with numpy 2, and with numpy 1.
NUMPY_2 = """
#######################################################################
Please cite the following paper when using nnU-Net:
2026-11-21 13:58:01.123456: do_dummy_2d_data_aug: False
2026-11-21 13:58:02.123456: Epoch 0 
2026-11-21 13:58:02.123456: Current learning rate: 0.01 
2026-11-21 13:58:03.123456: train_loss 0.1 
2026-11-21 13:58:03.123456: val_loss -0.2 
2026-11-21 13:58:03.123456: Pseudo dice [np.float32(0.4), np.float32(0.2)] 
2026-11-21 13:58:03.123456: Epoch time: 1.0 s 
2026-11-21 13:58:04.123456: Epoch 1 
2026-11-21 13:58:05.123456: Pseudo dice [np.float32(0.8), np.float32(nan)] 
2026-11-21 13:58:06.123456: Epoch 2 
"""  # noqa: W291
NUMPY_1 = "t: Epoch 0 \nt: Pseudo dice [0.4, 0.2] \nt: Epoch 1 \nt: Pseudo dice [0.8, nan] \nt: Epoch 2 \n"


def write(folder, name, text, *, time=0):
    path = folder / name
    path.write_text(text)
    os.utime(path, (time, time))
    return path


@pytest.mark.parametrize("text", [NUMPY_2, NUMPY_1])
def test_pseudo_dice_is_the_running_mean_of_the_classes_with_a_value(tmp_path, text):
    write(tmp_path, "training_log_2026_11_21_13_58_01.txt", text)
    epochs = read_epochs(tmp_path)

    assert epochs.current == 2
    assert epochs.pseudo_dice == pytest.approx({0: 0.3, 1: 0.9 * 0.3 + 0.1 * 0.8})


def test_running_mean_is_nnunets(tmp_path):
    module = pytest.importorskip("nnunetv2.training.logging.nnunet_logger")
    if not hasattr(module, "MetaLogger"):
        pytest.skip("nnU-Net 2.6 keeps the mean in a dictionary.")
    logger = module.MetaLogger(str(tmp_path), False)
    means = (0.3, 0.8, 0.5)
    for step, value in enumerate(means):
        logger.log("mean_fg_dice", value, step)
    lines = "".join(
        f"t: Epoch {step} \nt: Pseudo dice [{value}] \n" for step, value in enumerate(means)
    )
    write(tmp_path, "training_log_1.txt", lines)

    expected = [logger.get_value("ema_fg_dice", step=step) for step in range(3)]

    assert list(read_epochs(tmp_path).pseudo_dice.values()) == pytest.approx(expected)
    assert expected[-1] == pytest.approx(0.365)


def test_resumed_epochs_count_as_the_later_log_has_them(tmp_path):
    # By name, 11 comes before 9.
    write(tmp_path, "training_log_2026_9_1_00_00_00.txt", NUMPY_1, time=1)
    write(
        tmp_path,
        "training_log_2026_11_1_00_00_00.txt",
        "t: Epoch 1 \nt: Pseudo dice [0.6] \n",
        time=2,
    )

    epochs = read_epochs(tmp_path)

    assert epochs.current == 1
    assert epochs.pseudo_dice == pytest.approx({0: 0.3, 1: 0.33})


@pytest.mark.parametrize(
    ("text", "pseudo_dice"),
    [
        ("t: Epoch 3 \nt: Pseudo dice [0.4, 0.2]", {}),  # half a line is left for later
        ("t: Epoch 0 \nt: Pseudo dice [nan, nan] \nt: Epoch 1 \nt: Pseudo dice [0.5] \n", {1: 0.5}),
    ],
)
def test_epochs_without_a_value_have_none(tmp_path, text, pseudo_dice):
    log = write(tmp_path, "training_log_1.txt", text)
    assert read_epochs(tmp_path).pseudo_dice == pseudo_dice
    assert read_epochs(tmp_path, without=[log]).pseudo_dice == {}, "old logs can be left out"
    assert read_epochs(tmp_path / "fold_0").progress(3, 4) == (0, 3, "epochs"), (
        "a training that has not begun"
    )


def test_progress_is_that_of_the_epochs_and_then_of_the_validation(tmp_path):
    lines = [f"12:00: Epoch {epoch}\n12:01: Pseudo dice [0.5]\n" for epoch in range(3)]
    log = tmp_path / "training_log_2026_9_1.txt"

    log.write_text("".join(lines[:2]) + "12:02: Epoch 2\n")

    assert read_epochs(tmp_path).progress(3, 4) == (2, 3, "epochs")

    log.write_text("".join(lines))
    (tmp_path / "validation").mkdir()
    for name in ("a.nii.gz", "a.npz", "a.pkl", "b.nii.gz", "summary.json"):
        (tmp_path / "validation" / name).touch()

    assert read_epochs(tmp_path).progress(3, 4) == (2, 4, "validation cases")
