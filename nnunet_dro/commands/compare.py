"""The command `nnunet-dro compare`."""

from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated

import typer

from nnunet_dro.commands.named_folders import named_trainings
from nnunet_dro.commands.shared import (
    Output,
    Overwrite,
    ProtocolFile,
    RequireFile,
    requirement_texts,
    show_with_page,
    stop_if_unmet,
    takes,
)
from nnunet_dro.evaluation.comparing.options import CompareOptions


@dataclass(frozen=True, kw_only=True)
class _Options(CompareOptions):
    evaluations: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=FOLDER...",
            help="Output folders of evaluate; the first is the baseline. "
            "plain=seed0,seed1,seed2 for several trainings. Or tables of MIST (CSV) or panoptica "
            "(TSV).",
        ),
    ]
    output: Output
    overwrite: Overwrite = False
    require_file: RequireFile = None
    protocol: ProtocolFile = None


@takes(_Options)
def compare(options: _Options) -> None:
    """Compare methods case by case and report the differences, with intervals and tests."""
    from nnunet_dro.commands.protocol_file import check_made_under, under_protocol
    from nnunet_dro.evaluation.comparing.comparison import compare as compare_evaluations
    from nnunet_dro.evaluation.evaluating.other_tables import read_scores
    from nnunet_dro.evaluation.evaluating.result_files import TABLES, comparison_files
    from nnunet_dro.evaluation.judging.subjects import COMPARISON
    from nnunet_dro.evaluation.report import comparison_reports, comparison_table
    from nnunet_dro.files.output_folder import check_output, write_files
    from nnunet_dro.viewer import PAGE as VIEWER_PAGE

    requirements = requirement_texts(options.requirements, options.require_file, COMPARISON)
    options = replace(options, requirements=requirements)
    folders_by_method = named_trainings(options.evaluations)
    inputs = list(chain.from_iterable(folders_by_method.values()))
    check_output(
        options.output,
        overwrite=options.overwrite,
        inputs=inputs,
        kinds=("evaluation", "comparison"),
    )

    trainings_by_method = {
        name: [read_scores(folder) for folder in folders]
        for name, folders in folders_by_method.items()
    }
    if options.protocol:
        check_made_under(options.protocol, trainings_by_method)
    comparison = compare_evaluations(trainings_by_method, options)
    # The comparison has what reports need; with many cases the rest takes much memory.
    del trainings_by_method
    if options.protocol:
        comparison = under_protocol(comparison, options.protocol)
    # What it is made of, so that an evidence pack can make it again.
    files_by_method = {
        name: [str(folder.absolute()) for folder in folders]
        for name, folders in folders_by_method.items()
    }
    origin = {"by": list(options.by), "files": files_by_method}
    comparison = replace(comparison, about={**comparison.about, "inputs": origin})

    files = {**comparison_files(comparison), **comparison_reports(comparison)}
    write_files(options.output, files, outdated=(*TABLES, VIEWER_PAGE))
    show_with_page(comparison_table(comparison), options.output / "report.html")
    stop_if_unmet(comparison.about["requirements"])
