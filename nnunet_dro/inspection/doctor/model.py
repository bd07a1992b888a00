"""A finished training of nnU-Net, loaded with nnU-Net's own means.

It measures the losses of patches of a case, and predicts the whole case.
"""

import contextlib
import io
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from joblib import cpu_count
from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
from nnunetv2.utilities.label_handling.label_handling import convert_labelmap_to_one_hot

from nnunet_dro.bad_input import check_folder
from nnunet_dro.evaluation.scoring.score_arrays import score_case
from nnunet_dro.evaluation.stratifying.attributes import contrast
from nnunet_dro.fingerprints import KINDS
from nnunet_dro.inspection.doctor.columns import CONTRAST, DICE, VOXELS
from nnunet_dro.inspection.training import TrainingFiles
from nnunet_dro.losses import DiceCELoss, PooledHardness
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.command import best_device, variables
from nnunet_dro.nnunet.folders import SPLITS_FILE
from nnunet_dro.nnunet.splits_file import cases_of_source
from nnunet_dro.sampling import draws_of_kinds
from nnunet_dro.trainers.checkpoint import read_checkpoint, state_in, trained_cases
from nnunet_dro.trainers.data.dataloading import loader_of
from nnunet_dro.trainers.data.image_rarity import image_rarity
from nnunet_dro.trainers.data.preprocessed_cases import check_preprocessed
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from nnunet_dro.trainers.options import DROOptions
from nnunet_dro.trainers.registry import find_trainer, trained_with
from nnunet_dro.trainers.weighted_loss import HardnessWeightedLoss, per_case_loss


class FinishedModel:
    """A trained network with nnU-Net's data loading, loss and prediction.

    Nothing is written into its folders; fingerprints of images are kept beside the preprocessed
    data.
    """

    def __init__(self, inputs: TrainingFiles, *, device: str | None) -> None:
        self._labels = inputs.labels
        cure = "Copy it again from where the model was trained."
        checkpoint = read_checkpoint(inputs.checkpoint, cure=cure)
        name = checkpoint["trainer_name"]
        with _without_traces() as results, _readable(inputs.preprocessed):
            trainer = _load(name, inputs, torch.device(best_device(device)))
            if trainer.is_cascaded:
                previous = _previous_stage(trainer, inputs, results)
                trainer.folder_with_segs_from_previous_stage = str(previous)
            # Cases drawn by hardness would need losses that nobody has measured yet.
            plain: Any = trainer
            if isinstance(plain, HardnessWeighted):
                plain = super(HardnessWeighted, plain)
            augmenter, _ = plain.get_dataloaders()
            self._split = trainer.do_split()
            self._predictor = _predictor(trainer, name)

        loss = trainer.loss
        if isinstance(loss, HardnessWeightedLoss):
            loss = loss.plain
        self.trainer = trainer
        #: The cases that the checkpoint says it was trained on, with any folds so far.
        self._trained_cases = trained_cases(state_in(checkpoint))
        #: Those that the model it was started from may have been trained on.
        self._cases_of_source = cases_of_source(inputs.checkpoint.parent)
        #: The trainer's name that stands now for the training, see `trained_with`.
        self.trained_with = trained_with(checkpoint)
        self._loader = loader_of(augmenter)
        self._per_case = per_case_loss(loss, DROOptions())
        trainer.network.eval()

    def cases(self, *, report: Callable[[str], object]) -> tuple[list[str], list[str]]:
        """The training cases and the validation cases of the fold.

        Cases in both are training cases only.

        Args:
            report: Called with a sentence on cases that are left out, because the folds were
                changed: validation cases that the network was trained on before, and training cases
                that it was not trained on.
        """
        training, validation = ({str(case) for case in cases} for cases in self._split)
        folder = Path(self.trainer.preprocessed_dataset_folder)
        check_preprocessed(folder, training | validation)

        validation -= training
        seen = validation & (self._trained_cases | self._cases_of_source)
        if seen:
            report(
                f"Left out, for the network was trained on them before {SPLITS_FILE} was changed, "
                "or may have been in the model that it was started from: "
                f"{name_some(sorted(seen))}."
            )

        # The checkpoints of other trainers do not say what was trained on.
        unseen = training - self._trained_cases if self._trained_cases else set()
        if unseen:
            report(
                f"Left out, for {SPLITS_FILE} has them in the training part, but the network was "
                f"not trained on them: {name_some(sorted(unseen))}."
            )
        return sorted(training - unseen), sorted(validation - seen)

    @property
    def length(self) -> tuple[int, int]:
        """Number of epochs of the training, and of its iterations per epoch."""
        return int(self.trainer.num_epochs), int(self.trainer.num_iterations_per_epoch)

    @property
    def batch_size(self) -> int:
        """Number of cases in a batch."""
        return int(self._loader.batch_size)

    def n_voxels(self, case: str) -> int:
        """Size of a preprocessed case."""
        with _readable(f"{self.trainer.preprocessed_dataset_folder}, case {case}"):
            data = self._dataset(case).load_case(case)[0]
            return int(np.prod(data.shape[1:]))

    def draws_of_images(
        self, cases: Sequence[str], *, report: Callable[[str], object]
    ) -> npt.NDArray[np.float64]:
        """How often the default trainer draws cases for their images, relative to chance.

        Args:
            cases: Names of the training cases.
            report: Called with a sentence on what is done.

        Returns:
            Shape (n,), with a mean of 1.
        """
        table = image_rarity(self._loader._data, cases, log=report, jobs=cpu_count())
        return draws_of_kinds(table[list(KINDS)], cap=DROOptions().cap_of_kinds)

    @torch.no_grad()
    def patch_losses(self, case: str, n_patches: int) -> tuple[list[float], float]:
        """Losses of augmented patches of a case, and the hardness that the default trainer keeps.

        The patches of a case are always the same.
        """
        # nnU-Net draws from the global states. The cases' own seeds make the numbers independent of
        # their order.
        seed = zlib.crc32(case.encode())
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        batch = self._loader_of(case, n_patches).generate_train_batch()
        self.trainer.set_deep_supervision_enabled(self.trainer.enable_deep_supervision)

        losses: list[float] = []
        pooled = PooledHardness(1, memory=DROOptions().memory)
        hardness_kept = float("nan")
        # The batches of the training fit into the memory, larger ones may not.
        step = max(1, int(self.trainer.batch_size))
        for start in range(0, n_patches, step):
            patches = self._patches(batch, slice(start, start + step))
            hardness = patches.hardness
            losses += hardness.float().tolist()
            # Only the parts of Dice and cross-entropy can be pooled; other losses are averaged.
            if isinstance(self._per_case, DiceCELoss):
                same_case = torch.zeros(len(hardness), dtype=torch.long, device=hardness.device)
                hardness_kept = pooled(same_case, patches)[-1].item()
            else:
                hardness_kept = float(np.mean(losses))
        return losses, hardness_kept

    def _patches(self, batch: dict[str, Any], part: slice) -> Any:
        """What the loss says of some patches of a batch, case by case."""
        device = self.trainer.device
        data = batch["data"][part].to(device)
        target = batch["target"]
        # With deep supervision, there is a target for every scale.
        if isinstance(target, torch.Tensor):
            target = target[part].to(device)
        else:
            target = [scale[part].to(device) for scale in target]

        is_cuda = device.type == "cuda"
        with torch.autocast("cuda") if is_cuda else contextlib.nullcontext():
            return self._per_case(self.trainer.network(data), target)

    @torch.no_grad()
    def prediction(self, case: str) -> dict[str, float]:
        """Voxels and largest contrast of each label in a case's reference, and its Dice.

        The prediction is without mirroring.
        """
        data, reference, previous, _ = self._dataset(case).load_case(case)
        image = np.asarray(data[:])
        predicted = self._predicted(image, previous)
        # nnU-Net puts -1 outside of the image.
        truth = np.asarray(reference[:])[0]
        inside = np.maximum(truth, 0)

        row: dict[str, float] = {}
        for score in score_case(inside, predicted, self._labels):
            label = score["label"]
            mask = np.isin(truth, self._labels.values[label])
            # A channel without contrast is NaN, which fmax leaves out.
            contrasts = [contrast(channel, mask) for channel in image]
            row[f"{VOXELS}{label}"] = score["n_reference"]
            row[f"{CONTRAST}{label}"] = float(np.fmax.reduce(contrasts))
            row[f"{DICE}{label}"] = score["dice"]
        return row

    def _predicted(self, image: npt.NDArray[Any], previous: Any) -> npt.NDArray[Any]:
        """The predicted label map; ``previous`` is the prediction of the stage before, if any."""
        manager = self.trainer.label_manager
        channels = image
        if previous is not None:
            one_hot = convert_labelmap_to_one_hot(
                previous[:], manager.foreground_labels, output_dtype=image.dtype
            )
            channels = np.vstack((image, one_hot))

        self.trainer.set_deep_supervision_enabled(False)
        with contextlib.redirect_stdout(io.StringIO()):
            logits = self._predictor.predict_sliding_window_return_logits(
                torch.from_numpy(np.array(channels))
            )
        return np.asarray(manager.convert_logits_to_segmentation(logits.cpu().float()))

    def _dataset(self, case: str) -> Any:
        trainer = self.trainer
        return trainer.dataset_class(
            trainer.preprocessed_dataset_folder,
            [case],
            folder_with_segs_from_previous_stage=trainer.folder_with_segs_from_previous_stage,
        )

    def _loader_of(self, case: str, n_patches: int) -> Any:
        """nnU-Net's loader with a batch of patches of one case.

        As large a share of them as usual is forced on foreground.
        """
        usual = self._loader
        n_usual = int(usual.batch_size)
        loader = copy(usual)
        loader._data = self._dataset(case)
        loader.batch_size = n_patches
        loader.get_indices = lambda: [case] * n_patches

        # nnU-Net forces the last third of a batch on foreground: the patches stand for places
        # spread over a batch.
        share = max(1.0, n_usual / n_patches)
        loader.get_do_oversample = lambda j: usual.get_do_oversample(
            int((j + 0.5) * share) % n_usual
        )
        return loader


@contextlib.contextmanager
def _readable(data: object) -> Iterator[None]:
    """Say in one line that preprocessed data are damaged.

    Unpickling and unzipping them raise errors of many kinds.
    """
    try:
        yield
    except (ValueError, OSError):
        raise
    except Exception as error:
        raise ValueError(
            f"`nnUNet_preprocessed` must hold readable cases, got {str(data)!r}: "
            f"{type(error).__name__} {error}. Preprocess the dataset again with the same plans."
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


def _load(name: str, inputs: TrainingFiles, device: torch.device) -> Any:
    """The trainer of a training, with its network."""
    kind = find_trainer(name)
    if kind is None:
        raise ValueError(
            f"`trainer` must be one that nnU-Net finds, got {name!r} in "
            f"{str(inputs.checkpoint)!r}. Install it as for the training, or name its folder in "
            "the environment variable nnUNet_extTrainer."
        )

    number: str | int = inputs.fold.number
    if number != "all":
        number = int(number)
    trainer = kind(
        {**inputs.plans, "continue_training": False},
        inputs.fold.configuration,
        number,
        dict(inputs.dataset),
        device,
    )
    trainer.initialize()
    try:
        trainer.load_checkpoint(str(inputs.checkpoint))
    except (RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            "`checkpoint` must fit plans.json beside the folds, got "
            f"{str(inputs.checkpoint)!r}: {reason}. Copy the model again, with the plans it was "
            "trained with."
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


def _previous_stage(trainer: Any, inputs: TrainingFiles, results: Path) -> Path:
    """The predictions of a cascade's stage before, beside the model and not where the log goes."""
    folder_of_log = Path(trainer.folder_with_segs_from_previous_stage)
    dataset = results / trainer.plans_manager.dataset_name
    folder = inputs.fold.folder.parents[1] / folder_of_log.relative_to(dataset)
    check_folder(
        "fold_folder",
        folder,
        "Validate that stage for all folds: nnUNetv2_train ... --val.",
        must="have the predictions of the stage before",
    )
    return folder
