"""Find out whether nnU-Net finds the trainers of this package, and what to do if it does not.

The only module of the folder ``discovery`` is installed inside nnU-Net's package, where nnU-Net
looks for trainers. The folder can also be named in the environment variable ``nnUNet_extTrainer``
(nnunetv2 >= 2.8). It has no ``__init__.py``, which would be installed over nnU-Net's own.
"""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent / "discovery"
_MODULE = "nnUNetTrainer_nnunet_dro.py"
#: The module of nnU-Net that reads nnUNet_extTrainer; versions before 2.8 have none.
_SEARCH = Path("utilities") / "find_objects.py"
#: Makes nnU-Net look into our folder, from nnunetv2 2.8 on.
EXPORT = "export nnUNet_extTrainer=$(nnunet-dro trainers --path)"


@dataclass(frozen=True)
class Discovery:
    """Whether and where nnU-Net finds the trainers."""

    where: Path | None  # the file through which nnU-Net finds them, or None
    cure: str = ""  # what to do if they are not found, otherwise ''


def discover() -> Discovery:
    """Look for the trainers where nnU-Net looks, without importing it."""
    spec = find_spec("nnunetv2")
    if spec is None:
        return Discovery(None, "nnU-Net is not installed here. Run: pip install nnunetv2")

    packages = [Path(folder) for folder in spec.submodule_search_locations or ()]
    folders = [package / "training" / "nnUNetTrainer" for package in packages]
    if spec.origin is None:
        # Our module lies in a folder `nnunetv2` of its own, which hides an nnU-Net that is
        # installed with -e.
        return Discovery(
            None,
            "nnU-Net is installed from its sources (pip install -e), and the folder "
            f"{packages[0]}, which contains only a module of nnunet-dro, hides it. "
            f"Remove that folder, then run: {EXPORT}",
        )
    if any((package / _SEARCH).exists() for package in packages):
        external = os.environ.get("nnUNet_extTrainer", "")
        folders += [Path(part) for part in external.split(os.pathsep) if part.strip()]

    for folder in folders:
        if (folder / _MODULE).exists():
            return Discovery(folder / _MODULE)
    return Discovery(
        None,
        f"{folders[0] / _MODULE} is missing. Install nnunet-dro again (pip install "
        f"--force-reinstall --no-deps nnunet-dro), or with nnunetv2 >= 2.8 run: {EXPORT}",
    )
