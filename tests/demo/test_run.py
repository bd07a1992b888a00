import json
import re
import shlex
import shutil
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import SimpleITK
from rich.console import Console

from nnunet_dro.demo import DemoSettings, run, run_demo, steps
from nnunet_dro.demo.dataset import DATASET_NAME
from nnunet_dro.demo.preparation import PLANS_NAME
from nnunet_dro.nnunet.command import CommandError, Device
from nnunet_dro.trainers.registry import trainer_class
from tests.commands import done
from tests.commands import run as run_command
from tests.trainers.earlier import write_training_of_0_3

#: Cases of each split and centre.
N_CASES = {"train": {"A": 9, "B": 4}, "validation": {"A": 1}, "test": {"A": 3, "B": 2}}


def write_png(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.asarray(values, np.uint8)), str(path))


def build_tiny(raw, *, rng):
    """Stands in for the slices of the brain: tiny ones."""
    rows = []
    for split, n_by_centre in N_CASES.items():
        for centre, n_cases in n_by_centre.items():
            for number in range(n_cases):
                case = f"{centre}{number:02d}{split}"
                suffix = "Ts" if split == "test" else "Tr"
                write_png(
                    raw / DATASET_NAME / f"images{suffix}" / f"{case}_0000.png", [[0, 1, 2]] * 3
                )
                write_png(raw / DATASET_NAME / f"labels{suffix}" / f"{case}.png", [[0, 1, 2]] * 3)
                rows.append((case, centre, split))
    pd.DataFrame(rows, columns=["case", "centre", "split"]).to_csv(
        raw / DATASET_NAME / "cases.csv", index=False
    )
    labels = {"background": 0, "grey_matter": 1, "white_matter": 2}
    (raw / DATASET_NAME / "dataset.json").write_text(
        json.dumps({"labels": labels, "file_ending": ".png"})
    )


class NNUNet:
    """Stands in for nnU-Net's commands: makes the files they make, and notes what was asked."""

    def __init__(self):
        self.fails = None
        self.commands, self.environments, self.n_at_once = [], [], []

    def __call__(self, commands, *, while_running):
        self.n_at_once.append(len(commands))
        for command in commands:
            command.log.parent.mkdir(exist_ok=True)
            command.log.write_text("2026-01-01 00:00:00.000000: Epoch 3\n")
            self.commands.append(command.arguments)
            self.environments.append(command.environment)
        while_running()
        for command in commands:
            if self.fails and self.fails in command.arguments:
                raise CommandError(command.arguments[0], 1, [], command.log)
        for command in commands:
            paths = {name: Path(value) for name, value in command.environment.items()}
            getattr(self, command.arguments[0])(command.arguments, paths)
            while_running()

    def nnUNetv2_plan_and_preprocess(self, _, environment):
        folder = environment["nnUNet_preprocessed"] / DATASET_NAME
        folder.mkdir(parents=True, exist_ok=True)
        kwargs = {"n_stages": 2, "features_per_stage": [32, 64], "kernel_sizes": [[3, 3]] * 2}
        kwargs |= {
            "strides": [[1, 1], [2, 2]],
            "n_conv_per_stage": [2, 2],
            "n_conv_per_stage_decoder": [2],
        }
        parent = {"patch_size": [8, 8], "architecture": {"arch_kwargs": kwargs}}
        (folder / "nnUNetPlans.json").write_text(json.dumps({"configurations": {"2d": parent}}))

    def nnUNetv2_train(self, arguments, environment):
        model = f"{arguments[arguments.index('-tr') + 1]}__{PLANS_NAME}__2d_small"
        folder = environment["nnUNet_results"] / DATASET_NAME / model / "fold_0" / "validation"
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text("{}")

    def nnUNetv2_predict(self, arguments, _):
        images, to = (Path(arguments[arguments.index(option) + 1]) for option in ("-i", "-o"))
        to.mkdir(parents=True)
        for image in images.iterdir():
            case = image.name.replace("_0000.png", "")
            if "beta0" in arguments[arguments.index("-tr") + 1]:
                write_png(to / f"{case}.png", [[0, 1, 0]] * 3)
            else:
                shutil.copyfile(images.parent / "labelsTs" / f"{case}.png", to / f"{case}.png")


@pytest.fixture
def nnunet(monkeypatch):
    commands = NNUNet()
    monkeypatch.setattr(steps, "run_commands", commands)
    monkeypatch.setattr(run, "cpu_count", lambda: 2)
    monkeypatch.setattr(run, "build_dataset", build_tiny)
    return commands


def demo(out, *, device="cpu", **options):
    text = StringIO()
    usual = {"trainer": "nnUNetTrainerDRO", "epochs": 10, "iterations": 140, "seed": 0}
    settings = DemoSettings(**{**usual, **options})
    table = run_demo(out, settings, device=Device(device), console=Console(file=text, width=120))
    return table, text.getvalue()


def test_demo_compares_both_methods_on_held_out_cases_and_reports_it(tmp_path, nnunet):
    table, text = demo(tmp_path / "out")

    means = table.set_index(["method", "label", "stratum"])["mean"].to_dict()

    assert means["ERM", "grey_matter", "A"] == 1
    assert means["ERM", "white_matter", "B"] == 0
    assert {
        means["DRO", label, stratum]
        for label in ("grey_matter", "white_matter")
        for stratum in "AB"
    } == {1}
    assert table["attribute"].unique() == ["centre"]
    for heading in ("Mean", "Median", "Values", "centre"):
        assert heading in text

    (split,) = json.loads(next((tmp_path / "out").rglob("splits_final.json")).read_text())
    assert [len(split["train"]), len(split["val"])] == [13, 1]
    assert not [case for case in (*split["train"], *split["val"]) if case.endswith("test")]

    comparison = pd.read_csv(tmp_path / "out" / "comparison" / "comparison.csv")
    dice = comparison[(comparison["metric"] == "dice") & (comparison["stratum"] == "B")].set_index(
        "label"
    )

    assert dice.loc["white_matter", "mean_difference"] == 1
    assert dice.loc["white_matter", ["baseline", "method"]].tolist() == ["ERM", "DRO"]

    for folder in ("evaluation/ERM", "evaluation/DRO", "comparison"):
        report = tmp_path / "out" / folder / "report.html"
        assert report.stat().st_size > 10_000
        assert str(report) in text.replace("\n", "")
    scores = pd.read_csv(
        tmp_path / "out" / "evaluation" / "ERM" / "scores.csv", dtype={"case": str}
    )

    assert len(scores) == 5 * 2
    assert {"case", "label", "dice", "centre"} <= set(scores.columns)
    assert "hd95" not in scores.columns, "pictures store no voxel size"

    worst = (tmp_path / "out" / "evaluation" / "ERM" / "report.html").read_text()
    assert "data:image/" in worst, "the worst cases are pictured"
    assert len(table) == 8


def test_demo_runs_nnunets_commands_for_two_trainings_of_equal_length(tmp_path, nnunet):
    demo(tmp_path / "out", trainer="nnUNetTrainerHWS_beta7", epochs=2, iterations=3, device="cuda")
    programs = ["nnUNetv2_plan_and_preprocess", *["nnUNetv2_train"] * 2, *["nnUNetv2_predict"] * 2]

    assert [command[0] for command in nnunet.commands] == programs

    trainers = [command[command.index("-tr") + 1] for command in nnunet.commands[1:]]
    assert trainers[:2] == trainers[2:]
    assert trainers[:2] == [
        "nnUNetTrainerDRO_beta0_2epochs_3iters",
        "nnUNetTrainerHWS_beta7_2epochs_3iters",
    ]
    assert all("cuda" in command for command in nnunet.commands[1:])


@pytest.mark.parametrize(
    ("n_cores", "device", "wished", "n_at_once", "n_threads"),
    [
        (2, "cpu", None, [1, 2, 1, 1], "1"),
        (16, "cpu", "3", [1, 2, 1, 1], "3"),
        (1, "cpu", None, [1] * 5, "1"),
        (2, "cuda", None, [1] * 5, None),
        (2, "mps", None, [1] * 5, None),
    ],
)
def test_two_trainings_at_once_of_one_thread_each_on_a_cpu_of_two_cores(
    tmp_path, nnunet, monkeypatch, n_cores, device, wished, n_at_once, n_threads
):
    monkeypatch.setattr(run, "cpu_count", lambda: n_cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if wished:
        monkeypatch.setenv("OMP_NUM_THREADS", wished)
    _, text = demo(tmp_path / "out", device=device)

    found = [environment.get("OMP_NUM_THREADS") for environment in nnunet.environments]

    assert found == [None, n_threads, n_threads, None, None]
    assert (tmp_path / "out" / "commands.sh").read_text().count("OMP_NUM_THREADS=") == (
        2 if n_threads else 0
    )
    assert nnunet.n_at_once == n_at_once

    lines = [line for line in text.splitlines() if "Train" in line]
    begin = [f"{n}/5 Train {method} (" for n, method in ((2, "ERM"), (3, "DRO"))]
    end = (" ...", " s")
    order = [(0, 0), (1, 0), (0, 1), (1, 1)] if 2 in n_at_once else [(0, 0), (0, 1), (1, 0), (1, 1)]

    assert len(lines) == len(order)
    for line, (of_method, is_end) in zip(lines, order, strict=True):
        assert line.startswith(begin[of_method])
        assert line.endswith(end[is_end])


def test_demo_writes_commands_that_a_shell_can_repeat(tmp_path, nnunet):
    demo(tmp_path / "out")
    commands = (tmp_path / "out" / "commands.sh").read_text()

    assert len(re.findall(r"^(?:\w+=\d+ )*nnUNetv2_", commands, re.MULTILINE)) == 5
    assert f"export nnUNet_raw={tmp_path / 'out' / 'nnUNet_raw'}" in commands

    ours = [
        shlex.split(line)[1:] for line in commands.splitlines() if line.startswith("nnunet-dro ")
    ]
    assert [arguments[0] for arguments in ours] == [
        "evaluate",
        "report",
        "evaluate",
        "report",
        "compare",
    ]

    first = (tmp_path / "out" / "comparison" / "comparison.csv").read_text()
    for arguments in ours:
        words = [
            word.replace(str(tmp_path / "out" / "comparison"), str(tmp_path / "again"))
            for word in arguments
        ]
        done(run_command(*words, *["--overwrite"] * (words[0] == "evaluate")))

    assert (tmp_path / "again" / "comparison.csv").read_text() == first


@pytest.mark.parametrize(
    "failing", ["nnUNetv2_plan_and_preprocess", "nnUNetv2_train", "nnUNetv2_predict"]
)
def test_second_run_continues_where_the_first_stopped(tmp_path, nnunet, failing):
    nnunet.fails = failing
    with pytest.raises(CommandError):
        demo(tmp_path / "out")

    before, nnunet.commands, nnunet.fails = nnunet.commands, [], None
    failed = nnunet.n_at_once[-1]
    table, text = demo(tmp_path / "out")

    assert nnunet.commands[:failed] == before[-failed:]
    assert len(before) + len(nnunet.commands) == 5 + failed
    assert text.count("was done before") == len(before) - failed
    assert len(table) == 8

    nnunet.commands.clear()
    demo(tmp_path / "out")

    assert nnunet.commands == []


def test_training_that_was_stopped_is_continued(tmp_path, nnunet):
    nnunet.fails = "nnUNetv2_train"
    with pytest.raises(CommandError):
        demo(tmp_path / "out")

    trainer = nnunet.commands[-1][nnunet.commands[-1].index("-tr") + 1]
    fold = (
        tmp_path
        / "out"
        / "nnUNet_results"
        / DATASET_NAME
        / f"{trainer}__{PLANS_NAME}__2d_small"
        / "fold_0"
    )
    fold.mkdir(parents=True)
    (fold / "checkpoint_best.pth").touch()
    nnunet.commands, nnunet.fails = [], None
    demo(tmp_path / "out")

    assert [command[-1] == "--c" for command in nnunet.commands[:2]] == [False, True]


def test_folder_of_other_settings_or_files_is_refused(tmp_path, nnunet):
    demo(tmp_path / "out")
    for name, value in {"seed": 1, "trainer": "nnUNetTrainerHWS", "epochs": 3}.items():
        with pytest.raises(
            ValueError, match=f"which holds a run with {name} .*Choose another with --out"
        ):
            demo(tmp_path / "out", **{name: value})
    with pytest.raises(ValueError, match="must be empty or hold an earlier demo"):
        demo(tmp_path)
    with pytest.raises(ValueError, match="must be a folder, got the file"):
        demo(tmp_path / "out" / "demo.json")


def test_training_that_another_version_made_by_this_name_is_refused(tmp_path, nnunet):
    out = tmp_path / "out"
    demo(out)
    (fold,) = out.glob("nnUNet_results/*/nnUNetTrainerDRO_[0-9]*/fold_0")
    shutil.rmtree(fold)
    write_training_of_0_3(fold)

    message = "where another version trained nnUNetTrainerDRO_.*Choose another with --out"
    with pytest.raises(ValueError, match=message):
        demo(out)


def test_bad_input_leaves_no_folder(tmp_path, nnunet):
    out = tmp_path / "out"
    for trainer, message in (
        ("nnUNetTrainerDRO_beta0", "`trainer` must differ from plain nnU-Net"),
        ("nnUNetTrainer", "`trainer` must be one of `nnunet-dro trainers`, got 'nnUNetTrainer'"),
        ("nnUNetTrainerDRO_beta", "`beta` in `nnUNetTrainerDRO_beta` is not an option"),
    ):
        with pytest.raises(ValueError, match=message):
            demo(out, trainer=trainer)
    assert not out.exists()


def test_default_trainers_are_found_by_nnunet_under_their_names():
    trainers = DemoSettings("nnUNetTrainerDRO", 10, 140, 0).trainers
    assert trainers["ERM"] == "nnUNetTrainerDRO_beta0_10epochs_140iters"
    assert trainers["DRO"] == "nnUNetTrainerDRO_10epochs_140iters"
    for name in trainers.values():
        assert trainer_class(name).__name__ == name


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_without_workers_the_demo_plans_with_one_all_the_same(
    tmp_path, nnunet, monkeypatch, device
):
    """nnU-Net trains without workers, but cannot plan without one."""
    monkeypatch.setenv("nnUNet_n_proc_DA", "0")
    demo(tmp_path / "out", device=device)

    plan, *trainings = [e["nnUNet_n_proc_DA"] for e in nnunet.environments[:3]]

    assert plan == "1"
    assert trainings == ["0", "0"]
