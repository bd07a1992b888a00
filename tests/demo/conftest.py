import json

import numpy as np
import pytest
import SimpleITK

LABELS = {"background": 0, "grey_matter": 1, "white_matter": 2}


def write_png(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.asarray(values, np.uint8)), str(path))


@pytest.fixture
def raw(tmp_path):
    """Builds a raw dataset of tiny slices: centre -> number of cases, and those of a test set of its own."""

    def build(n_by_centre, n_test_by_centre=None, *, name="Dataset007_Tiny", columns="case,centre"):
        folder = tmp_path / name
        rows = [columns]
        for suffix, counts in (("Tr", n_by_centre), ("Ts", n_test_by_centre or {})):
            for centre, n_cases in counts.items():
                for number in range(n_cases):
                    case = f"{centre}{number:02d}{suffix}"
                    write_png(folder / f"images{suffix}" / f"{case}_0000.png", [[0, 1, 2]] * 3)
                    write_png(folder / f"labels{suffix}" / f"{case}.png", [[0, 1, 2]] * 3)
                    rows.append(f"{case},{centre}")
        (folder / "cases.csv").write_text("\n".join(rows) + "\n")
        (folder / "dataset.json").write_text(json.dumps({"labels": LABELS, "file_ending": ".png"}))
        return folder

    return build
