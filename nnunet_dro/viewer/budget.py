"""Which cases fit into the page, and with how many of their channels."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nnunet_dro.evaluation.report.gallery import Choice
from nnunet_dro.evaluation.scoring.labels import Labels
from nnunet_dro.evaluation.stratifying.images import find_channels
from nnunet_dro.viewer.volumes import LEAST_VOXELS, MOST_VOXELS, Volumes, packed_volumes

#: Bytes of a megabyte.
MB = 1_000_000

#: The size of the page unless another is asked for, MB: mail and browsers can still handle it.
MOST_MB = 100


@dataclass
class ShownCases:
    """The volumes of the cases that fit into the page.

    Attributes:
        volumes: Case to its volumes, in the order in which they were tried.
        left_out: Cases for which there was no room.
        only_first_channel: Whether further channels had no room.
    """

    volumes: dict[str, Volumes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    only_first_channel: bool = False

    def n_channels(self, case: str) -> int:
        """Number of channels of a case that are in the page."""
        return 1 if self.only_first_channel else len(self.volumes[case].channels)

    @property
    def n_bytes(self) -> int:
        """Bytes of all volumes in the page."""
        return sum(volumes.n_bytes(self.n_channels(case)) for case, volumes in self.volumes.items())


def shown_cases(
    choices: Sequence[Choice],
    images: Path,
    files: Mapping[str, tuple[Path, Path]],
    labels: Labels,
    *,
    most_mb: float,
    frame_bytes: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ShownCases:
    """Read and pack cases until the room is used up.

    Where there is not room for all, the page has the first channels only; where that does not suffice, a case that
    does not fit is left out, and a smaller one after it may still fit. The first case is cut until it fits.
    """
    wanted: dict[str, list[str]] = {}
    for choice in choices:
        names = wanted.setdefault(choice.case, [])
        if choice.label not in names:
            names.append(choice.label)
    # All images are looked for before the first is read: a missing one is told at once.
    channels = {case: find_channels(images, case) for case in wanted}
    room = int(most_mb * MB) - frame_bytes
    shown = ShownCases()
    for n_done, (case, names) in enumerate(wanted.items(), start=1):
        paths = channels[case][:1] if shown.only_first_channel else channels[case]
        shown.volumes[case] = packed_volumes(paths, files[case], labels, names)
        if shown.n_bytes > room:
            shown.only_first_channel |= any(len(volumes.channels) > 1 for volumes in shown.volumes.values())
        if shown.n_bytes > room and n_done == 1:
            shown.volumes[case] = _cut_to_fit(case, paths[0], files[case], labels, names, room, most_mb)
        elif shown.n_bytes > room:
            del shown.volumes[case]
            shown.left_out.append(case)
        if progress:
            progress(n_done, len(wanted))
    return shown


def _cut_to_fit(
    case: str,
    image: Path,
    files: tuple[Path, Path],
    labels: Labels,
    names: Sequence[str],
    room: int,
    most_mb: float,
) -> Volumes:
    """The largest cut-out of a case that fits, halved again and again."""
    most_voxels = MOST_VOXELS
    while most_voxels >= LEAST_VOXELS:
        volumes = packed_volumes([image], files, labels, names, most_voxels=most_voxels)
        if volumes.n_bytes(1) <= room:
            return volumes
        most_voxels //= 2
    # Rounded up, so that the number it names is enough.
    least = math.ceil(10 * (most_mb + (volumes.n_bytes(1) - room) / MB)) / 10
    raise ValueError(
        f"`viewer_mb` must be at least {least:.1f} to have room for one case, {case!r}, got {most_mb:g}. Raise it."
    )
