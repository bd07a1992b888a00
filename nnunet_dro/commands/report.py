"""The command `nnunet-dro report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import takes
from nnunet_dro.pages.wording import plain
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What `report` takes."""

    evaluation: Annotated[
        Path, typer.Argument(help="Output folder of evaluate whose reports are made again.", readable=False)
    ]
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of images (CASE_0000.nii.gz ...), for pictures of the worst cases.", readable=False),
    ] = None
    per_stratum: Annotated[int, typer.Option(min=1, help="Number of cases to show per stratum and label.")] = 2
    viewer: Annotated[
        bool, typer.Option("--viewer", help="Write cases.html, too: the worst cases in every plane and in 3-D.")
    ] = False
    viewer_mb: Annotated[float | None, typer.Option(help="Largest size of cases.html, in MB.", show_default="100")] = (
        None
    )
    pack: Annotated[
        Path | None,
        typer.Option(
            help="New folder for everything to put on record: Table 1, model card, what CLAIM 2024 asks, all reports.",
            readable=False,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.viewer and self.images is None:
            cure = "Name their folder: --images."
            raise ValueError(f"`viewer` must be given with the images that it shows, got none. {cure}")
        if self.viewer_mb is not None and not self.viewer:
            cure = "which writes that page. Give both."
            raise ValueError(f"`viewer_mb` bounds cases.html, got it without --viewer, {cure}")


@takes(ReportOptions)
def report(options: ReportOptions) -> None:
    """Make the reports of an evaluation again, with pictures of the worst cases."""
    from nnunet_dro.evaluation.report import evaluation_reports, pictures_of
    from nnunet_dro.evaluation.result_files import read_evaluation
    from nnunet_dro.files.output_folder import check_output, write_files
    from nnunet_dro.viewer import MOST_MB, PAGE, viewer_page

    if options.pack is not None:
        check_output(options.pack, overwrite=False)
    read = read_evaluation(options.evaluation)
    gallery, page = [], None
    if options.images is not None:
        with progress_bar("Drawing the worst cases") as progress:
            gallery = pictures_of(read, options.images, per_stratum=options.per_stratum, progress=progress)
    if options.viewer and options.images is not None:
        most_mb = MOST_MB if options.viewer_mb is None else options.viewer_mb
        with progress_bar("Packing the worst cases") as progress:
            page = viewer_page(
                read, options.images, per_stratum=options.per_stratum, most_mb=most_mb, progress=progress
            )
    links, pages = (page.links, {page.name: page.html}) if page else ({}, {})
    if options.pack is not None:
        from nnunet_dro.evidence import evidence_pack

        files, folder, main = evidence_pack(read, gallery, links), options.pack, "README.md"
    else:
        files, folder, main = evaluation_reports(read, gallery, links), options.evaluation, "report.html"
    # Without its links, an earlier viewer would be a page that nothing leads to, perhaps of other scores.
    for name in write_files(folder, files | pages, outdated=(PAGE,)):
        said = f"{folder / name} of an earlier run was deleted. Give --viewer to write it again."
        typer.echo(f"nnunet-dro: {plain(said)}", err=True)
    typer.echo(folder / main)
    if page:
        typer.echo(folder / page.name)
        for line in (f"{page.name} has {page.summary}.", *page.notes):
            typer.echo(f"nnunet-dro: {plain(line)}", err=True)
