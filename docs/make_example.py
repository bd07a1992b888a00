"""Makes the pages of docs/example, which show what the commands write.

    python docs/make_example.py --demo nnunet-dro-demo      (make example)

They come from a folder of `nnunet-dro demo`: its comparison, an evaluation with the viewer, and the
pages of `nnunet-dro suspects` and `nnunet-dro rank`. To have more than two to rank, the predictions
of the demo's two networks are also processed in simple ways, which their names say.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import SimpleITK

OUT = Path(__file__).with_name("example")
#: What all pages together may weigh.
MOST_MB = 10

_PROGRAM = Path(sys.executable).with_name("nnunet-dro")


def largest_parts(image: SimpleITK.Image) -> SimpleITK.Image:
    """The label map with only the largest connected component of each label."""
    values = SimpleITK.GetArrayFromImage(image)
    kept = np.zeros_like(values)
    for label in np.unique(values[values > 0]):
        parts = SimpleITK.RelabelComponent(SimpleITK.ConnectedComponent(image == int(label)))
        kept[SimpleITK.GetArrayFromImage(parts) == 1] = label
    return _like(image, kept)


def smoothed(image: SimpleITK.Image) -> SimpleITK.Image:
    """The label map after a median filter of 3 x 3 pixels."""
    return SimpleITK.Median(image, [1] * image.GetDimension())


def main(words: Sequence[str] | None = None) -> None:
    """Make all pages anew."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--demo", type=Path, required=True, help="Folder of nnunet-dro demo, finished."
    )
    parser.add_argument(
        "--out", type=Path, default=OUT, help="Folder for the pages (default: %(default)s)."
    )
    arguments = parser.parse_args(words)
    demo = arguments.demo.absolute()
    out = arguments.out.absolute()
    if not (demo / "comparison" / "report.html").is_file():
        parser.error(
            f"`demo` must be a finished demo, got {str(demo)!r}. Run: nnunet-dro demo --out FOLDER"
        )
    work = demo / "example"
    shutil.rmtree(work, ignore_errors=True)
    raw = next((demo / "nnUNet_raw").iterdir())
    fold = next((demo / "nnUNet_results" / raw.name).glob("*beta0_*/fold_0"))
    about_cases = ["--dataset-json", raw / "dataset.json", "--cases", raw / "cases.csv"]
    scored = [*about_cases, "--by", "centre", "--metrics", "dice,hd95"]
    run("evaluate", raw / "labelsTs", demo / "predictions/DRO", "-o", work / "evaluation", *scored)
    run("report", work / "evaluation", "--images", raw / "imagesTs", "--viewer")
    environment = {"nnUNet_raw": str(demo / "nnUNet_raw")}
    run("suspects", fold, "-o", work / "suspects", "--top", 10, environment=environment)
    methods = [f"{name}={folder}" for name, folder in submissions(demo, work).items()]
    run("rank", *methods, "--evaluate", raw / "labelsTs", "-o", work / "rank", *scored)
    shutil.copytree(demo / "comparison", work / "comparison")
    shutil.rmtree(out, ignore_errors=True)
    for page in sorted(work.glob("*/*.html")):
        if page.parent.name in ("comparison", "evaluation", "suspects", "rank"):
            (out / page.parent.name).mkdir(parents=True, exist_ok=True)
            # Reports say where the files were, which is nobody's business here.
            text = page.read_text(encoding="utf-8").replace(str(demo), "nnunet-dro-demo")
            (out / page.parent.name / page.name).write_text(text, encoding="utf-8")
    size = sum(page.stat().st_size for page in out.rglob("*.html")) / 1e6
    if size > MOST_MB:
        raise SystemExit(
            f"The pages must weigh at most {MOST_MB} MB together, got {size:.1f}. Show fewer cases."
        )
    sys.stdout.write(f"{out}: {size:.1f} MB\n")


def submissions(demo: Path, work: Path) -> dict[str, Path]:
    """Folders of predictions by name: those of the demo, and the same after simple processing."""
    steps: dict[str, Callable[[SimpleITK.Image], SimpleITK.Image]] = {
        "largest": largest_parts,
        "smoothed": smoothed,
    }
    folders = {}
    for name in ("ERM", "DRO"):
        folders[name] = demo / "predictions" / name
        for step, change in steps.items():
            folder = work / "submissions" / f"{name}_{step}"
            folder.mkdir(parents=True)
            for path in sorted(folders[name].glob("*.png")):
                changed = change(SimpleITK.ReadImage(str(path)))
                SimpleITK.WriteImage(changed, str(folder / path.name))
            folders[f"{name}_{step}"] = folder
    return folders


def run(*words: object, environment: dict[str, str] | None = None) -> None:
    """Run a command of this package."""
    variables = {**os.environ, **(environment or {})}
    subprocess.run([_PROGRAM, *map(str, words)], check=True, env=variables)


def _like(image: SimpleITK.Image, values: np.ndarray) -> SimpleITK.Image:
    made = SimpleITK.GetImageFromArray(values)
    made.CopyInformation(image)
    return made


if __name__ == "__main__":
    main()
