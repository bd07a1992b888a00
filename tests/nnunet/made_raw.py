"""Raw datasets of empty files."""

import json


def make_bare(root, cases, name="Dataset007_Tiny", ending=".nii.gz"):
    """A raw dataset whose images and label maps have names alone."""
    folder = root / "raw" / name
    for part in ("imagesTr", "labelsTr"):
        (folder / part).mkdir(parents=True)
    for case in cases:
        (folder / "labelsTr" / f"{case}{ending}").touch()
        (folder / "imagesTr" / f"{case}_0000{ending}").touch()
    (folder / "dataset.json").write_text(json.dumps({"file_ending": ending}))
    return folder
