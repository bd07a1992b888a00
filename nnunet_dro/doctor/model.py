"""A finished training of nnU-Net, loaded with nnU-Net's own means to measure its losses and its predictions."""

import contextlib
import io
import tempfile
import zlib
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
from nnunetv2.utilities.label_handling.label_handling import convert_labelmap_to_one_hot

from nnunet_dro.doctor.inputs import Inputs
from nnunet_dro.doctor.rules import CONTRAST, DICE, VOXELS
from nnunet_dro.evaluation.scoring.score_arrays import score_case
from nnunet_dro.evaluation.stratifying.attributes import contrast
from nnunet_dro.losses import DiceCELoss, PooledHardness
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.command import best_device, variables
from nnunet_dro.trainers.checkpoint import read_checkpoint
from nnunet_dro.trainers.data.dataloading import loader_of
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from nnunet_dro.trainers.options import DROOptions
from nnunet_dro.trainers.registry import find_trainer
from nnunet_dro.trainers.weighted_loss import HardnessWeightedLoss, per_case_loss


class FinishedModel:
    """A trained network with nnU-Net's data loading, loss and prediction.

    Nothing is written into its folders.
    """

    def __init__(self, inputs: Inputs, *, device: str | None) -> None:
        self._labels = inputs.labels
        cure = "Copy it again from where the model was trained."
        name = read_checkpoint(inputs.checkpoint, cure=cure)["trainer_name"]
        with _without_traces() as results, _readable(inputs.preprocessed):
            self.trainer = _load(name, inputs, torch.device(best_device(device)))
            if self.trainer.is_cascaded:
                self.trainer.folder_with_segs_from_previous_stage = str(
                    _previous_stage(self.trainer, inputs, results)
                )
            # Cases drawn by hardness would need losses that nobody has measured yet.
            plain: Any = self.trainer
            if isinstance(plain, HardnessWeighted):
                plain = super(HardnessWeighted, plain)
            augmenter, _ = plain.get_dataloaders()
            self._split = self.trainer.do_split()
            self._predictor = _predictor(self.trainer, name)
        self._loader = loader_of(augmenter)
        loss = self.trainer.loss
        self._per_case = per_case_loss(
            loss.plain if isinstance(loss, HardnessWeightedLoss) else loss
        )
        self.trainer.network.eval()

    def cases(self) -> tuple[list[str], list[str]]:
        """The training cases and the validation cases of the fold, those in both only as training cases."""
        training, validation = ({str(case) for case in cases} for cases in self._split)
        folder = self.trainer.preprocessed_dataset_folder
        there = set(self.trainer.dataset_class.get_identifiers(folder))
        if missing := sorted((training | validation) - there):
            raise FileNotFoundError(
                f"`nnUNet_preprocessed` must hold every case of the fold, got no {name_some(missing)} in {folder!r}. "
                "Preprocess the dataset again with the same plans."
            )
        return sorted(training), sorted(validation - training)

    @property
    def length(self) -> tuple[int, int]:
        """Number of epochs of the training, and of its iterations per epoch."""
        return int(self.trainer.num_epochs), int(self.trainer.num_iterations_per_epoch)

    def n_voxels(self, case: str) -> int:
        """Size of a preprocessed case."""
        with _readable(f"{self.trainer.preprocessed_dataset_folder}, case {case}"):
            return int(np.prod(self._dataset(case).load_case(case)[0].shape[1:]))

    @torch.no_grad()
    def patch_losses(self, case: str, n_patches: int) -> tuple[list[float], float]:
        """Losses of augmented patches of a case, always the same, and the hardness that the default trainer keeps."""
        # nnU-Net draws from the global states. The cases' own seeds make the numbers independent of
        # their order.
        seed = zlib.crc32(case.encode())
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        batch = self._loader_of(case, n_patches).generate_train_batch()
        self.trainer.set_deep_supervision_enabled(self.trainer.enable_deep_supervision)
        losses: list[float] = []
        is_own = isinstance(self._per_case, DiceCELoss)
        pooled = PooledHardness(1, memory=DROOptions().memory)
        hardness = float("nan")
        step = max(1, int(self.trainer.batch_size))
        for start in range(0, n_patches, step):
            part = slice(start, start + step)
            data = batch["data"][part].to(self.trainer.device)
            target = batch["target"]
            is_deep = not isinstance(target, torch.Tensor)
            scales = [
                scale[part].to(self.trainer.device) for scale in (target if is_deep else [target])
            ]
            is_cuda = self.trainer.device.type == "cuda"
            with torch.autocast("cuda") if is_cuda else contextlib.nullcontext():
                patches = self._per_case(
                    self.trainer.network(data), scales if is_deep else scales[0]
                )
            losses += patches.hardness.float().tolist()
            if is_own:
                hardness = pooled(
                    torch.zeros(len(data), dtype=torch.long, device=data.device), patches
                )[-1].item()
        return losses, hardness if is_own else float(np.mean(losses))

    @torch.no_grad()
    def prediction(self, case: str) -> dict[str, float]:
        """Voxels and largest contrast of each label in a case's reference, and its Dice, without mirroring."""
        data, reference, previous, _ = self._dataset(case).load_case(case)
        data = image = np.asarray(data[:])
        if previous is not None:
            labels = self.trainer.label_manager.foreground_labels
            data = np.vstack(
                (data, convert_labelmap_to_one_hot(previous[:], labels, output_dtype=data.dtype))
            )
        self.trainer.set_deep_supervision_enabled(False)
        with contextlib.redirect_stdout(io.StringIO()):
            logits = self._predictor.predict_sliding_window_return_logits(
                torch.from_numpy(np.array(data))
            )
        prediction = self.trainer.label_manager.convert_logits_to_segmentation(logits.cpu().float())
        truth = np.asarray(reference[:])[0]
        row: dict[str, float] = {}
        # nnU-Net puts -1 outside of the image.
        for score in score_case(np.maximum(truth, 0), np.asarray(prediction), self._labels):
            label = score["label"]
            mask = np.isin(truth, self._labels.values[label])
            # A channel without contrast is NaN, which fmax leaves out.
            most = float(np.fmax.reduce([contrast(channel, mask) for channel in image]))
            measured = {VOXELS: score["n_reference"], CONTRAST: most, DICE: score["dice"]}
            row |= {f"{what}{label}": value for what, value in measured.items()}
        return row

    def _dataset(self, case: str) -> Any:
        trainer = self.trainer
        return trainer.dataset_class(
            trainer.preprocessed_dataset_folder,
            [case],
            folder_with_segs_from_previous_stage=trainer.folder_with_segs_from_previous_stage,
        )

    def _loader_of(self, case: str, n_patches: int) -> Any:
        """nnU-Net's loader with a batch of patches of one case, as many of them forced on foreground as usual."""
        of_case = copy(self._loader)
        usual = self._loader
        n_usual = int(self._loader.batch_size)
        of_case._data = self._dataset(case)
        of_case.batch_size = n_patches
        of_case.get_indices = lambda: [case] * n_patches
        # nnU-Net forces the last third of a batch on foreground: the patches stand for places
        # spread over a batch.
        share = max(1.0, n_usual / n_patches)
        of_case.get_do_oversample = lambda j: usual.get_do_oversample(
            int((j + 0.5) * share) % n_usual
        )
        return of_case


@contextlib.contextmanager
def _readable(data: object) -> Iterator[None]:
    """Say in one line that preprocessed data are damaged, whatever unpickling and unzipping them raises."""
    try:
        yield
    except (ValueError, OSError):
        raise
    except Exception as error:
        cure = "Preprocess the dataset again with the same plans."
        raise ValueError(
            f"`nnUNet_preprocessed` must hold readable cases, got {str(data)!r}: {type(error).__name__} {error}. {cure}"
        ) from error


@contextlib.contextmanager
def _without_traces() -> Iterator[Path]:
    """Let nnU-Net's trainer write its log elsewhere, compile nothing, and start no workers."""
    settings = {"nnUNet_n_proc_DA": "0", "nnUNet_compile": "false", "nnUNet_wandb_enabled": "0"}
    with (
        tempfile.TemporaryDirectory(prefix="nnunet-dro-doctor-") as folder,
        variables(nnUNet_results=folder, **settings),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        yield Path(folder)


def _load(name: str, inputs: Inputs, device: torch.device) -> Any:
    if (kind := find_trainer(name)) is None:
        raise ValueError(
            f"`trainer` must be one that nnU-Net finds, got {name!r} in {str(inputs.checkpoint)!r}. Install it as for "
            "the training, or name its folder in the environment variable nnUNet_extTrainer."
        )
    plans = {**inputs.plans, "continue_training": False}
    number = inputs.fold.number if inputs.fold.number == "all" else int(inputs.fold.number)
    trainer = kind(plans, inputs.fold.configuration, number, dict(inputs.dataset), device)
    trainer.initialize()
    try:
        trainer.load_checkpoint(str(inputs.checkpoint))
    except (RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"`checkpoint` must fit plans.json beside the folds, got {str(inputs.checkpoint)!r}: {reason}. Copy the "
            "model again, with the plans it was trained with."
        ) from error
    return trainer


def _predictor(trainer: Any, name: str) -> nnUNetPredictor:
    predictor = nnUNetPredictor(use_mirroring=False, device=trainer.device, allow_tqdm=False)
    predictor.manual_initialization(
        trainer.network,
        trainer.plans_manager,
        trainer.configuration_manager,
        None,
        trainer.dataset_json,
        name,
        trainer.inference_allowed_mirroring_axes,
    )
    return predictor


def _previous_stage(trainer: Any, inputs: Inputs, results: Path) -> Path:
    """The predictions of the stage before in a cascade.

    They lie beside the model, not where the log goes.
    """
    there = Path(trainer.folder_with_segs_from_previous_stage).relative_to(
        results / trainer.plans_manager.dataset_name
    )
    folder = inputs.fold.folder.parents[1] / there
    if not folder.is_dir():
        raise FileNotFoundError(
            f"`fold_folder` must have the predictions of the stage before, got none in {str(folder)!r}. Validate that "
            "stage for all folds: nnUNetv2_train ... --val."
        )
    return folder
