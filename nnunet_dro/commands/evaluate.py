"""The command `nnunet-dro evaluate`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from nnunet_dro.bad_input import InputError
from nnunet_dro.commands.shared import (
    Output,
    Overwrite,
    ProtocolFile,
    RequireFile,
    argument,
    option,
    requirement_texts,
    show_with_page,
    stop_if_unmet,
    takes,
)
from nnunet_dro.evaluation.inputs.flags import MODEL, RUNNING
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class _Options(EvaluateOptions):
    reference: Annotated[Path | None, argument("Folder of reference label maps.")] = None
    prediction: Annotated[
        Path | None,
        argument("Folder of predicted label maps, model folder of nnU-Net, or its summary.json."),
    ] = None
    output: Output
    dataset: Annotated[
        str | None, option("Dataset name or ID.", "--dataset", "-d", rich_help_panel=MODEL)
    ] = None
    configuration: Annotated[
        str | None,
        option(
            "Configuration, such as 3d_fullres.", "--configuration", "-c", rich_help_panel=MODEL
        ),
    ] = None
    trainer: Annotated[
        str, option("Name of the trainer.", "--trainer", "-tr", rich_help_panel=MODEL)
    ] = "nnUNetTrainer"
    plans: Annotated[str, option("Name of the plans.", "--plans", "-p", rich_help_panel=MODEL)] = (
        "nnUNetPlans"
    )
    overwrite: Overwrite = False
    require_file: RequireFile = None
    protocol: ProtocolFile = None
    resume: Annotated[
        bool,
        option(
            "Go on with an interrupted run; files that changed are scored again.",
            "--resume",
            rich_help_panel=RUNNING,
        ),
    ] = False

    @property
    def folders(self) -> tuple[Path, Path]:
        """Where references and predictions are: as given, or those of the trained model."""
        from nnunet_dro.nnunet.trained_model import references_of, trained_model

        defaults = {"configuration": None, "trainer": "nnUNetTrainer", "plans": "nnUNetPlans"}
        changed = [name for name, default in defaults.items() if getattr(self, name) != default]
        if changed and not self.dataset:
            raise InputError(
                changed[0],
                must="come with `dataset`",
                got="no dataset",
                cure="Add -d DATASET to evaluate a trained model, or leave it out.",
            )

        if self.reference and self.prediction and not self.dataset:
            return self.reference, self.prediction
        if self.dataset and not self.reference:
            model = trained_model(self.dataset, self.trainer, self.plans, self.configuration)
            return references_of(model.parent.name), model

        got = "neither"
        if self.dataset:
            got = "both"
        elif self.reference:
            got = "one folder"
        raise InputError(
            "evaluate",
            must="have two folders or a model to evaluate",
            got=got,
            cure=(
                "Give REFERENCE and PREDICTION, or a trained model with -d DATASET -c "
                "CONFIGURATION."
            ),
        )


@takes(_Options)
def evaluate(options: _Options) -> None:
    """Report Dice percentiles and other statistics per label and stratum of the cases."""
    from joblib import cpu_count

    from nnunet_dro.evaluation.evaluating.evaluation import evaluate as evaluate_files
    from nnunet_dro.evaluation.evaluating.result_files import TABLES, VIEWER_PAGE, evaluation_files
    from nnunet_dro.evaluation.judging.subjects import STRATA
    from nnunet_dro.evaluation.report import evaluation_reports, evaluation_table
    from nnunet_dro.evaluation.scoring.kept_scores import keeping
    from nnunet_dro.files.output_folder import check_output, write_files

    requirements = requirement_texts(options.requirements, options.require_file, STRATA)
    options = replace(options, requirements=requirements, jobs=options.jobs or cpu_count())
    output = options.output
    folders = options.folders
    check_output(
        output,
        overwrite=options.overwrite,
        inputs=folders,
        kinds=("evaluation", "comparison"),
    )

    # Scores are kept beside the output folder, for a run that is interrupted.
    absolute = output.absolute()
    kept_file = absolute.with_name(f".{absolute.name}.scored")
    with (
        progress_bar("Reading label maps") as progress,
        keeping(kept_file, resume=options.resume) as kept,
    ):
        evaluation = evaluate_files(*folders, options, kept=kept, progress=progress)
        if options.protocol:
            from nnunet_dro.commands.protocol_file import under_protocol

            evaluation = under_protocol(evaluation, options.protocol)
        files = {**evaluation_files(evaluation), **evaluation_reports(evaluation)}
        write_files(output, files, outdated=(*TABLES, VIEWER_PAGE))

    show_with_page(evaluation_table(evaluation), output / "report.html")
    stop_if_unmet(evaluation.about["requirements"])
