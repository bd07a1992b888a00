"""What each command that reads files is given: folders on which it succeeds, before they are
damaged."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import torch

from tests.commands import done
from tests.evaluation import made_folders as made
from tests.inspection.suspects.made_folds import fold_folder, ranked, write_log
from tests.kept.folders import VERSION_0_2

CASES = ("case_00", "case_01", "case_02", "case_03")
TRAINING = VERSION_0_2 / "trainings" / "nnUNetTrainerGILS_T1_2epochs_4iters"
DATASET = "Dataset901_labels"


def evaluate(root: Path) -> list[list[str]]:
    made.write_study(root)
    made.write_cases(root, centre=["A", "A", "B", "B"], age=[3, 40, 70, 9])
    (root / "require.txt").write_text("# for release\ncentre=A label=tumour p5>=0.1 n>=2\n")
    (root / "prediction" / "summary.json").write_text(
        json.dumps({"metric_per_case": [_entry(case) for case in CASES]})
    )
    common = [
        "reference",
        "prediction",
        "--cases",
        "cases.csv",
        "--by",
        "centre",
        "--bootstrap",
        "20",
        "--jobs",
        "1",
    ]
    return [
        [
            "evaluate",
            *common,
            "--metrics",
            "dice,hd95",
            "--require-file",
            "require.txt",
            "-o",
            "out",
        ],
        ["evaluate", *common, "--by", "age:q2", "--patient", "age", "-o", "out"],
        ["evaluate", "reference", "prediction/summary.json", "--bootstrap", "20", "-o", "out"],
    ]


def _entry(case: str) -> dict:
    counts = {"TP": 3, "FP": 1, "FN": 1, "TN": 500, "Dice": 0.75}
    files = {f"{which}_file": f"{which}/{case}.nii.gz" for which in ("reference", "prediction")}
    return files | {"metrics": {"1": counts, "2": counts}}


def _remove(root: Path, *names: str) -> None:
    for path in (root / name for name in names):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _evaluations(root: Path, *unneeded: str) -> None:
    made.write_study(root)
    made.evaluate_both(
        root,
        (),
        "--by",
        "centre",
        "--metrics",
        "dice,hd95",
        bootstrap=20,
        centre=["A", "A", "B", "B"],
    )
    reports = [
        f"{name}/report.{ending}" for name in ("erm", "dro") for ending in ("html", "md", "tex")
    ]
    _remove(root, *reports, *unneeded)


def compare(root: Path) -> list[list[str]]:
    _evaluations(root, "reference", "prediction", "cases.csv")
    return [
        ["compare", "A=erm", "B=dro", "-o", "out", "--bootstrap", "20", *more]
        for more in ([], ["--intersect"])
    ]


def report(root: Path) -> list[list[str]]:
    _evaluations(root, "dro")
    for case in CASES:
        made.write_map(root / "images" / f"{case}_0000.nii.gz", made.bars(4) * 50, dtype=np.float32)
    # The summary has the paths of where it was made.
    summary = root / "erm" / "summary.json"
    summary.write_text(summary.read_text().replace(str(root), "."))
    return [["report", "erm", "--images", "images"], ["report", "erm"]]


def plan(root: Path) -> list[list[str]]:
    _evaluations(root, "reference", "prediction", "dro", "cases.csv")
    return [
        ["plan", "centre=* label=tumour p5>=0.1@95", "--pilot", "erm"],
        ["plan", "mean>=0.1@90", "--pilot", "erm"],
    ]


def explore(root: Path) -> list[list[str]]:
    made.write_study(root, shifts=[n % 5 for n in range(12)])
    cases = made.write_cases(
        root, centre=["A", "B"] * 6, sex=list("ffmm") * 3, age=[7 * n % 80 for n in range(12)]
    )
    options = ("--cases", cases, "--by", "centre", "--by", "sex", "--metrics", "dice,hd95")
    done(made.run_evaluate(root, *options, out="dro"))
    _remove(
        root,
        "reference",
        "prediction",
        *(f"dro/report.{ending}" for ending in ("html", "md", "tex")),
    )
    common = ["explore", "dro", "-o", "out", "--min-cases", "2"]
    return [
        [*common, "--label", "tumour"],
        [*common, "--cases", "cases.csv", "--max-attributes", "3", "--metric", "hd95"],
        [*common, "--cases", "cases.csv", "--by", "centre,age:q2", "--by", "sex"],
    ]


def rank(root: Path) -> list[list[str]]:
    _evaluations(root)
    shutil.copytree(root / "prediction", root / "submissions" / "alpha")
    shutil.copytree(root / "prediction", root / "submissions" / "beta")
    shutil.rmtree(root / "prediction")
    submissions = [
        "submissions/alpha",
        "submissions/beta",
        "--evaluate",
        "reference",
        "--jobs",
        "1",
    ]
    common = ["-o", "out", "--bootstrap", "20"]
    return [
        ["rank", "A=erm", "B=dro", *common, "--scheme", "rank-mean"],
        [
            "rank",
            *submissions,
            "--evaluations",
            "kept",
            "--cases",
            "cases.csv",
            "--by",
            "centre",
            *common,
        ],
    ]


def selfcheck(root: Path) -> list[list[str]]:
    (root / "record.json").write_text("{}")
    return [["selfcheck", "-o", "record.json"]]


def _write_raw(raw: Path) -> None:
    for case in CASES:
        made.write_map(raw / "labelsTr" / f"{case}.nii.gz", made.bars(4))
        made.write_map(
            raw / "imagesTr" / f"{case}_0000.nii.gz", made.bars(4) * 30, dtype=np.float32
        )
    description = {
        "channel_names": {"0": "MRI"},
        "labels": made.LABELS,
        "numTraining": 4,
        "file_ending": ".nii.gz",
    }
    (raw / "dataset.json").write_text(json.dumps(description))


def splits(root: Path) -> list[list[str]]:
    _write_raw(root / DATASET)
    made.write_cases(root / DATASET, centre=["A", "A", "B", "B"], patient=["p", "q", "r", "s"])
    words = [
        "splits",
        DATASET,
        "--cases",
        f"{DATASET}/cases.csv",
        "--folds",
        "2",
        "-o",
        "splits.json",
    ]
    return [
        [*words, "--stratify", "centre", "--group", "patient"],
        [*words, "--leave-out", "centre"],
    ]


def suspects(root: Path) -> list[list[str]]:
    _write_raw(root / "raw" / "Dataset123_Made")
    folder = fold_folder(root / "results")
    for file in ("weights.csv", "hardness.csv"):
        write_log(folder, file, ranked(file, CASES))
    given = str(folder.relative_to(root))
    return [["suspects", given, "-o", "out"], ["suspects", given, "-o", "out", "--by", "loss"]]


def _trained(root: Path) -> Path:
    """The folder of a kept training, with what nnU-Net puts beside it."""
    folder = root / "results" / DATASET / f"{TRAINING.name}__nnUNetPlans__2d_small"
    shutil.copytree(TRAINING, folder / "fold_0")
    checkpoint = torch.load(
        folder / "fold_0" / "checkpoint_final.pth", map_location="cpu", weights_only=False
    )
    arguments = checkpoint["init_args"]
    for name, content in (("plans", arguments["plans"]), ("dataset", arguments["dataset_json"])):
        (folder / f"{name}.json").write_text(json.dumps(content))
    preprocessed = root / "preprocessed" / DATASET
    preprocessed.mkdir(parents=True)
    shutil.copyfile(folder / "plans.json", preprocessed / "nnUNetPlans.json")
    shutil.copyfile(folder / "dataset.json", preprocessed / "dataset.json")
    split = {"train": [f"case_{n:02}" for n in range(8)], "val": ["case_08", "case_09"]}
    (preprocessed / "splits_final.json").write_text(json.dumps([split]))
    (preprocessed / "cases.csv").write_text(
        "case,site\n" + "".join(f"case_{n:02},{'ab'[n % 2]}\n" for n in range(10))
    )
    for n in range(10):
        made.write_map(
            preprocessed / "gt_segmentations" / f"case_{n:02}.nii.gz", np.zeros((3, 4, 4))
        )
    images = (
        preprocessed
        / json.loads((folder / "plans.json").read_text())["configurations"]["2d"]["data_identifier"]
    )
    images.mkdir()
    for n in range(10):
        empty = np.zeros((1, 1, 4, 4))
        np.savez(
            images / f"case_{n:02}.npz", data=empty.astype(np.float32), seg=empty.astype(np.int8)
        )
        (images / f"case_{n:02}.pkl").write_bytes(pickle.dumps({"class_locations": {1: [], 2: []}}))
    return folder


def share(root: Path) -> list[list[str]]:
    folder = _trained(root).relative_to(root)
    shutil.rmtree(root / "preprocessed")
    return [["share", str(folder), "-o", "model.zip"]]


def doctor(root: Path) -> list[list[str]]:
    given = [
        "doctor",
        str((_trained(root) / "fold_0").relative_to(root)),
        "-o",
        "out",
        "--device",
        "cpu",
    ]
    # Measuring takes seconds, and reads what nnU-Net itself has written.
    return [[*given, "--patches", "0", "--no-prediction"]]


def finetune(root: Path) -> list[list[str]]:
    _trained(root)
    words = ["finetune", DATASET, "2d_small", "0", "--from", TRAINING.name, "--device", "cpu"]
    return [[*words, "--trainer", "nnUNetTrainerDRO_beta10_2epochs_2iters"]]


def tune(root: Path) -> list[list[str]]:
    _trained(root)
    words = [
        "tune",
        DATASET,
        "2d_small",
        "0",
        "--trainer",
        "HWS",
        "--epochs",
        "2",
        "--device",
        "cpu",
        "--trials",
        "1",
    ]
    return [[*words, "--option", "beta:1:10", "--objective", "p10 by site worst"]]


_ALL = (
    evaluate,
    compare,
    rank,
    report,
    plan,
    explore,
    splits,
    suspects,
    share,
    doctor,
    finetune,
    tune,
    selfcheck,
)
WORKSPACES = {make.__name__: make for make in _ALL}
