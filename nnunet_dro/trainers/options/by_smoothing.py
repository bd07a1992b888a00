"""Options of the trainers with label smoothing."""

from dataclasses import dataclass

from nnunet_dro.trainers.options.option import Option
from nnunet_dro.trainers.options.settings import TrainerOptions


@dataclass(frozen=True, kw_only=True)
class LSOptions(TrainerOptions):
    """Options of `nnUNetTrainerLS`; without smoothing it is plain nnU-Net.

    Source: Wang et al. 2024.
    """

    smoothing: float = 0.1

    def __post_init__(self) -> None:
        if self.polynomial_tail is not None:
            raise ValueError(
                f"`poly` must be left out with label smoothing, got {self.polynomial_tail!r}."
            )
        super().__post_init__()

    @classmethod
    def known_options(cls) -> list[Option]:
        """All options but the polynomial tail, whose margin belongs to a single label."""
        return [option for option in super().known_options() if option.field != "polynomial_tail"]


@dataclass(frozen=True, kw_only=True)
class GILSOptions(LSOptions):
    """Options of `nnUNetTrainerGILS`.

    The default of 5 steps changes images by about 0.02 standard deviations.

    Source: Wang et al. 2024, Algorithm 1, and its gamma.
    """

    steps: int = 5
    step_size: float = 0.03
    penalty: float = 1e-3
    largest_change: float | None = None
    warmup: int = 0
