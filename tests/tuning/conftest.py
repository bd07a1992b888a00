import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813

from tests.commands import done, run
from tests.tuning import fake_train

DATASET = "Dataset007_Fake"
#: Options of the command that is tried most, and the name of its study.
BETA = ("--option", "beta:10:100")
NAME = "HWS_4epochs__nnUNetPlans__2d__fold_0"
#: Two centres in the validation fold; in centre b the fake training finds half as much.
VALIDATION = ("a1", "a2", "b1", "b2")


@dataclass
class Fake:
    """A preprocessed dataset whose trainings take no time."""

    root: Path
    program: Path

    @property
    def preprocessed(self) -> Path:
        return self.root / "preprocessed" / DATASET

    @property
    def results(self) -> Path:
        return self.root / "results" / DATASET

    @property
    def calls(self) -> list[str]:
        path = self.results / "calls.txt"
        return path.read_text().splitlines() if path.exists() else []

    def environment(self, **fake) -> dict[str, str]:
        folders = {
            f"nnUNet_{name}": str(self.root / name) for name in ("raw", "preprocessed", "results")
        }
        return {**folders, "FAKE": json.dumps(fake)}

    def arguments(self, *options: str) -> list[str]:
        return [
            *[
                "tune",
                "7",
                "2d",
                "0",
                "--trainer",
                "HWS",
                "--epochs",
                "4",
                "--device",
                "cpu",
                "--repeat",
                "0",
            ],
            *options,
        ]

    def trials(self, study: str = NAME):
        import pandas as pd

        return pd.read_csv(self.results / "tuning" / study / "trials.csv", keep_default_na=False)

    def page(self, study: str = NAME) -> str:
        return (self.results / "tuning" / study / "study.html").read_text()


def make_dataset(root: Path) -> None:
    preprocessed = root / "preprocessed" / DATASET
    (preprocessed / "gt_segmentations").mkdir(parents=True)
    (root / "raw" / DATASET).mkdir(parents=True)
    (root / "results").mkdir()
    values = np.zeros((3, 10, 10), dtype=np.uint8)
    values[0] = 1
    for case in (*VALIDATION, "a3", "b3"):
        path = preprocessed / "gt_segmentations" / f"{case}.nii"
        sitk.WriteImage(sitk.GetImageFromArray(values), str(path))
        content = path.read_bytes()
        assert (
            content[fake_train.OFFSET : fake_train.OFFSET + fake_train.N_VOXELS]
            == bytes([1]) * fake_train.N_VOXELS
        )
    description = {
        "channel_names": {"0": "MRI"},
        "labels": {"background": 0, "organ": 1},
        "file_ending": ".nii",
    }
    (preprocessed / "dataset.json").write_text(json.dumps({**description, "numTraining": 6}))
    (preprocessed / "nnUNetPlans.json").write_text(
        json.dumps({"configurations": {"2d": {}, "3d_fullres": {}}})
    )
    (preprocessed / "splits_final.json").write_text(
        json.dumps([{"train": ["a3", "b3"], "val": list(VALIDATION)}])
    )
    rows = "".join(f"{case},{case[0]}\n" for case in (*VALIDATION, "a3", "b3", "test_1"))
    (root / "raw" / DATASET / "cases.csv").write_text("case,centre\n" + rows)


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Fake:
    """The dataset, with nnU-Net's variables set and its command replaced."""
    make_dataset(tmp_path)
    program = tmp_path / "nnUNetv2_train"
    # Without the modules of site-packages, whose looking up takes longer than the training.
    program.write_text(f"#!{sys.executable} -IS\n{Path(fake_train.__file__).read_text()}")
    program.chmod(0o755)
    made = Fake(tmp_path, program)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("nnunet_dro.nnunet.command.find_command", lambda name: str(program))
    monkeypatch.setattr("nnunet_dro.nnunet.command.POLL_SECONDS", 0.05)
    return made


@pytest.fixture
def tune(fake):
    """Run the command in this process, and check its exit code."""
    return lambda *options, code=0: done(run(*fake.arguments(*options)), code)
