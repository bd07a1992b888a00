"""The whole way on small finished trainings: measuring, killing, going on, bad input."""

import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.inspection.doctor import examine
from nnunet_dro.inspection.training import find_training
from tests.commands import done, run
from tests.nnunet_project import environment

pytestmark = pytest.mark.slow


def doctor(*words):
    return run("doctor", *words)


def check_refused(message, *words):
    """Cases may have been announced before the one line of the error."""
    lines = done(doctor(*words), 2).stderr.splitlines()
    (line,) = [line for line in lines if line.startswith("nnunet-dro: ")]
    assert message in line


def measured(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "doctor.csv").drop(
        columns=["seconds_patches", "seconds_prediction"]
    )


def listed(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


@pytest.mark.parametrize("configuration", ["2d_small", "3d_small"])
def test_a_run_that_stops_half_way_goes_on_with_the_same_numbers(finished, tmp_path, configuration):
    folder = finished(configuration)
    before = listed(folder.parent)

    answer, page = examine(folder, tmp_path / "whole", n_patches=3, device="cpu", by=["site"])

    assert listed(folder.parent) == before, "nothing is written into the model's folder"

    whole = measured(tmp_path / "whole")
    assert whole["set"].value_counts().to_dict() == {"training": 8, "validation": 2}
    assert np.isfinite(whole.filter(like="loss_").to_numpy()).all()
    assert list(whole.columns[-2:]) == ["dice_shell", "dice_core"]
    assert "Cannot tell, too few cases" in page.read_text()
    assert answer.diagnosis.n_training == 8

    def stop(n_done, n_all):
        if n_done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        examine(folder, tmp_path / "stopped", n_patches=3, device="cpu", by=["site"], progress=stop)

    with (tmp_path / "stopped" / "doctor.csv").open("a") as file:
        file.write("case_09,validation,0.1")
    said: list[str] = []
    examine(
        folder, tmp_path / "stopped", n_patches=3, device="cpu", by=["site"], report=said.append
    )

    assert said[0] == "4 of 10 cases were measured before."
    assert re.fullmatch(r"Measuring 6 cases will take about \d+ (s|min)\.", said[1])
    pd.testing.assert_frame_equal(measured(tmp_path / "stopped"), whole)


def test_the_dice_is_that_of_nnunets_own_validation_without_mirroring(finished, tmp_path):
    """Preprocessed and original label maps are on the same grid here: nnU-Net's summary has the
    same numbers."""
    import torch
    from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor

    folder = finished("3d_small", n_iterations=60)
    _, page = examine(folder, tmp_path / "out", n_patches=1, device="cpu")
    table = measured(page.parent).set_index("case")
    predictor = nnUNetPredictor(use_mirroring=False, device=torch.device("cpu"), allow_tqdm=False)
    predictor.initialize_from_trained_model_folder(str(folder.parent), (0,), "checkpoint_final.pth")
    from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

    inputs = find_training(folder)
    raw = folder.parents[3] / "raw" / inputs.fold.dataset
    for case in ("case_00", "case_05"):
        image, properties = SimpleITKIO().read_images(
            [str(raw / "imagesTr" / f"{case}_0000.nii.gz")]
        )
        found = predictor.predict_single_npy_array(image, properties)
        truth, _ = SimpleITKIO().read_seg(str(raw / "labelsTr" / f"{case}.nii.gz"))
        for label, value in (("shell", 1), ("core", 2)):
            both = ((found == value) & (truth[0] == value)).sum()
            volumes = (found == value).sum() + (truth[0] == value).sum()
            expected = 2 * both / volumes if volumes else np.nan
            assert table.loc[case, f"dice_{label}"] == pytest.approx(
                expected, abs=1e-3, nan_ok=True
            )


def test_regions_ignore_and_trainers_of_this_package(finished, tmp_path):
    from nnunet_dro.trainers.registry import trainer_class

    folder = finished(
        "3d_small", "regions_ignore", cls=trainer_class("nnUNetTrainerHWS_beta5_2epochs_3iters")
    )
    answer, page = examine(folder, tmp_path / "out", n_patches=2, device="cpu")

    table = measured(page.parent)

    assert list(table.columns[-2:]) == ["dice_whole", "dice_core"]
    assert np.isfinite(table.filter(like="loss_").to_numpy()).all()
    assert answer.trainer == "nnUNetTrainerDRO_2epochs_3iters"


def test_cases_of_the_wrong_part_after_a_change_of_folds_are_left_out(
    finished, tmp_path, monkeypatch
):
    before = {f"case_{n:02}" for n in (1, 2, 3, 4, 5, 6, 7)} | {"removed"}
    monkeypatch.setattr("nnunet_dro.inspection.doctor.model.trained_cases", lambda state: before)
    folder = finished("2d_small", n_iterations=1)
    _, page = examine(folder, tmp_path, n_patches=1, prediction=False, device="cpu")

    assert measured(tmp_path).query("set == 'validation'")["case"].tolist() == ["case_00"]
    assert measured(tmp_path)["case"].tolist() == [f"case_{n:02}" for n in (1, 2, 3, 4, 5, 6, 0)]
    assert "or may have been in the model that it was started from: case_07." in page.read_text()
    assert "the network was not trained on them: case_08, case_09." in page.read_text()


def test_losses_are_those_of_nnunets_loss_on_nnunets_batches(finished, tmp_path):
    """The mean over the patches of a case is nnU-Net's own loss of the batch, as the Dice is per
    case here."""
    import torch

    from nnunet_dro.inspection.doctor.model import FinishedModel
    from nnunet_dro.trainers.weighted_loss import per_case_loss

    model = FinishedModel(find_training(finished("3d_small")), device="cpu")

    losses, hardness = model.patch_losses("case_00", 2)

    assert (losses, hardness) == model.patch_losses("case_00", 2)
    assert losses != model.patch_losses("case_01", 2)[0]

    # The seed of the case.
    np.random.seed(zlib.crc32(b"case_00"))
    torch.manual_seed(zlib.crc32(b"case_00"))
    batch = model._loader_of("case_00", 2).generate_train_batch()

    assert list(batch["keys"]) == ["case_00"] * 2

    model.trainer.set_deep_supervision_enabled(True)
    with torch.no_grad():
        outputs = model.trainer.network(batch["data"])
        alone = model._per_case(outputs, batch["target"]).hardness
        assert losses == pytest.approx(alone.tolist(), abs=1e-5)
        assert alone.mean().item() == pytest.approx(
            model.trainer.loss(outputs, batch["target"]).item(), abs=1e-5
        )
        # Both patches as one image, at full resolution: what the default trainer would keep.
        as_one = [torch.cat(list(part), dim=1)[None] for part in (outputs[0], batch["target"][0])]
        model.trainer.set_deep_supervision_enabled(False)
        whole = per_case_loss(model.trainer._build_loss().loss)(*as_one).hardness.item()
        assert hardness == pytest.approx(whole, abs=1e-5)


def test_a_case_table_may_have_the_names_of_the_doctors_own_columns(finished, tmp_path):
    folder = finished("2d_small", n_iterations=1)
    own = (
        "set",
        "label",
        "method",
        "metric",
        "n",
        "share",
        "loss_1",
        "dice_core",
        "hardness",
        "seconds_patches",
    )
    rows = [f"case_{n:02},{','.join(f'{name} {n % 2}' for name in own)}\n" for n in range(10)]
    (tmp_path / "cases.csv").write_text(f"case,{','.join(own)}\n{''.join(rows)}")
    out = tmp_path / "out"

    result = done(
        doctor(
            folder, "-o", out, "--cases", tmp_path / "cases.csv", "--patches", 1, "--device", "cpu"
        )
    )

    assert not re.search(r"\bnan\b", result.stdout, re.IGNORECASE)
    assert set(measured(out)["set"]) == {"training", "validation"}

    page = (out / "doctor.html").read_text().replace("<wbr>", "")
    for name in own:
        assert f"{name}: {name} 0<" in page


def test_bad_input_is_one_line(finished, tmp_path, monkeypatch):
    folder = finished("3d_small", n_iterations=1)
    out = tmp_path / "out"
    check_refused("`--by` must be a column of the case table", folder, "-o", out, "--by", "centre")
    for n_patches in (-1, 0):
        check_refused("`--patches` must be at least 1", folder, "-o", out, "--patches", n_patches)
    check_refused("does not exist", folder.parent / "fold_3")
    (tmp_path / "few.csv").write_text("case,site\ncase_00,a\n")

    check_refused(
        "`--cases` must have a row for every case",
        folder,
        "-o",
        out,
        "--cases",
        tmp_path / "few.csv",
    )

    assert not out.exists()

    plans = folder.parent / "plans.json"
    text = plans.read_text()
    plans.write_text("{")
    check_refused("`plans.json` must be JSON", folder)
    plans.unlink()
    check_refused("`plans.json` must be beside the folds", folder)
    plans.write_text(text)
    with monkeypatch.context() as patch:
        patch.setenv("nnUNet_preprocessed", str(tmp_path))
        check_refused("`nnUNet_preprocessed` must hold the preprocessed dataset", folder)
        patch.delenv("nnUNet_preprocessed")
        check_refused("`nnUNet_preprocessed` must be set", folder)

    import torch

    checkpoint = folder / "checkpoint_final.pth"
    content = torch.load(checkpoint, weights_only=False)
    torch.save({**content, "trainer_name": "nnUNetTrainerOfMine"}, checkpoint)
    check_refused("`trainer` must be one that nnU-Net finds, got 'nnUNetTrainerOfMine'", folder)
    checkpoint.write_bytes(b"damaged")
    check_refused("`checkpoint` must be a checkpoint of nnU-Net", folder)
    shutil.move(checkpoint, folder / "checkpoint_latest.pth")
    check_refused("the training is not finished (checkpoint_latest.pth)", folder)
    (folder / "checkpoint_latest.pth").unlink()
    check_refused("there is no checkpoint", folder)


def test_a_killed_command_goes_on_and_other_settings_are_refused(finished, tmp_path):
    folder = finished("2d_small")
    out = tmp_path / "out"
    options = ("-o", out, "--patches", "2", "--device", "cpu")
    words = [Path(sys.executable).parent / "nnunet-dro", "doctor", folder, *options]
    process = subprocess.Popen(words, env=environment(folder.parents[3]), stderr=subprocess.DEVNULL)
    for _ in range(6000):
        if (out / "doctor.csv").exists() and (out / "doctor.csv").read_text().count("\n") > 3:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)

    process.wait()

    assert not (out / "doctor.html").exists()

    result = done(doctor(folder, *options))
    assert re.search(r"[1-9] of 10 cases were measured before", result.stderr)
    assert result.stdout.splitlines()[0] == "Cannot tell, too few cases"
    assert result.stdout.splitlines()[-1] == str(out / "doctor.html")

    check_refused("another number of patches (2, not 3)", folder, "-o", out, "--patches", 3)


def test_a_cascade_takes_the_predictions_of_the_stage_before(finished, project, tmp_path):
    import json

    from nnunetv2.training.dataloading.nnunet_dataset import infer_dataset_class

    here = project("labels")
    plans_file = here.preprocessed / "nnUNetPlans.json"
    before = plans_file.read_text()
    plans = json.loads(before)
    plans["configurations"]["3d_second"] = {
        "inherits_from": "3d_small",
        "previous_stage": "3d_small",
    }
    identifier = here.preprocessed / plans["configurations"]["3d_fullres"]["data_identifier"]
    stage = (
        here.fold_folder("nnUNetTrainer", "3d_small").parent / "predicted_next_stage" / "3d_second"
    )
    kind = infer_dataset_class(str(identifier))
    stage.mkdir(parents=True)
    try:
        plans_file.write_text(json.dumps(plans))
        for case in kind.get_identifiers(str(identifier)):
            segmentation = np.maximum(
                kind(str(identifier), [case]).load_case(case)[1][:][0], 0
            ).astype(np.uint8)
            kind.save_seg(segmentation, str(stage / case))
        folder = finished("3d_second", n_iterations=1)
        answer, _ = examine(folder, tmp_path / "out", n_patches=1, device="cpu")
        assert np.isfinite(answer.cases["loss_1"]).all()
        shutil.rmtree(stage)
        check_refused(
            f"`fold_folder` must have the predictions of the stage before, got {str(stage)!r}, which",
            folder,
            "-o",
            tmp_path / "b",
        )
    finally:
        plans_file.write_text(before)
        shutil.rmtree(stage.parents[1], ignore_errors=True)
