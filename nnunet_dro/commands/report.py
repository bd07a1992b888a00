"""The command `nnunet-dro report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import argument, option, takes
from nnunet_dro.naming import plain
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class _Options:
    evaluation: Annotated[Path, argument("Output folder of evaluate whose reports are made again.")]
    images: Annotated[
        Path | None, option("Folder of images (CASE_0000.nii.gz ...), to show the worst cases.")
    ] = None
    per_stratum: Annotated[int, option("Number of cases to show per stratum and label.", min=1)] = 2
    viewer: Annotated[
        bool, option("Write cases.html, too: the worst cases in all planes and 3-D.", "--viewer")
    ] = False
    viewer_mb: Annotated[
        float | None, option("Largest size of cases.html, in MB.", show_default="100")
    ] = None
    pack: Annotated[
        Path | None,
        option(
            "New folder for everything to put on record: Table 1, model card, what CLAIM 2024 asks, all reports."
        ),
    ] = None


@takes(_Options)
def report(options: _Options) -> None:
    """Make the reports of an evaluation again, with pictures of the worst cases."""
    if options.viewer and options.images is None:
        cure = "Name their folder: --images."
        raise ValueError(f"`viewer` must be given with the images that it shows, got none. {cure}")
    if options.viewer_mb is not None and not options.viewer:
        cure = "which writes that page. Give both."
        raise ValueError(f"`viewer_mb` bounds cases.html, got it without --viewer, {cure}")
    from nnunet_dro.evaluation.report import evaluation_reports, pictures_of
    from nnunet_dro.evaluation.result_files import read_evaluation
    from nnunet_dro.files.output_folder import check_output, write_files
    from nnunet_dro.viewer import MOST_MB, PAGE, viewer_page

    if options.pack is not None:
        check_output(options.pack, overwrite=None, name="pack")
    read = read_evaluation(options.evaluation)
    gallery = []
    page = None
    if options.images is not None:
        with progress_bar("Drawing the worst cases") as progress:
            gallery = pictures_of(
                read, options.images, per_stratum=options.per_stratum, progress=progress
            )
        if not gallery:
            typer.echo(
                "nnunet-dro: No pictures: no case has both a score and a prediction.", err=True
            )
    if options.viewer and options.images is not None:
        most_mb = MOST_MB if options.viewer_mb is None else options.viewer_mb
        with progress_bar("Packing the worst cases") as progress:
            page = viewer_page(
                read,
                options.images,
                per_stratum=options.per_stratum,
                most_mb=most_mb,
                progress=progress,
            )
    links, pages = (page.links, {PAGE: page.html}) if page else ({}, {})
    if options.pack is not None:
        from nnunet_dro.evaluation.report.evidence import evidence_pack

        files = evidence_pack(read, gallery, links)
        folder = options.pack
        main = "README.md"
    else:
        files = evaluation_reports(read, gallery, links)
        folder = options.evaluation
        main = "report.html"
    # Without its links, an earlier viewer would be a page that nothing leads to, perhaps of other
    # scores.
    for name in write_files(folder, files | pages, outdated=(PAGE,)):
        said = f"{folder / name} of an earlier run was deleted. Give --viewer to write it again."
        typer.echo(f"nnunet-dro: {plain(said)}", err=True)
    typer.echo(folder / main)
    if page:
        typer.echo(folder / PAGE)
        for line in (f"{PAGE} has {page.summary}.", *page.notes):
            typer.echo(f"nnunet-dro: {plain(line)}", err=True)
