"""The command `nnunet-dro report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnunet_dro.commands.shared import argument, option, takes
from nnunet_dro.naming import plain
from nnunet_dro.progress_bar import progress_bar

if TYPE_CHECKING:
    from nnunet_dro.evaluation.report.gallery import GalleryEntry
    from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
    from nnunet_dro.viewer import Viewer


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
            "New folder for everything to put on record: Table 1, model card, verdicts, "
            "what CLAIM 2024 asks, all reports, and a manifest of them."
        ),
    ] = None
    comparison: Annotated[
        Path | None,
        option("Output folder of compare to put into the pack: what a change of the model did."),
    ] = None
    verify: Annotated[
        bool,
        option("Check a pack, given in place of EVALUATION, and write nothing.", "--verify"),
    ] = False


@takes(_Options)
def report(options: _Options) -> None:
    """Make the reports of an evaluation again, with pictures of the worst cases."""
    _check_options(options)
    if options.verify:
        from nnunet_dro.commands.evidence import verified

        typer.echo("\n".join(verified(options.evaluation)))
        return

    from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
    from nnunet_dro.files.output_folder import check_output, write_files
    from nnunet_dro.viewer import PAGE

    if options.pack is not None:
        check_output(options.pack, overwrite=None, name="pack")
    evaluation = read_evaluation(options.evaluation)

    gallery: list[GalleryEntry] = []
    page = None
    if options.images is not None:
        gallery = _gallery(options, evaluation, options.images)
        if options.viewer:
            page = _viewer(options, evaluation, options.images)

    files = _files(options, evaluation, gallery, page)
    folder = options.pack or options.evaluation
    # Without its links, an earlier viewer would be a page that nothing leads to, perhaps of other
    # scores.
    deleted = write_files(folder, files, outdated=(PAGE,))

    for name in deleted:
        path = folder / name
        line = f"{path} of an earlier run was deleted. Give --viewer to write it again."
        typer.echo(f"nnunet-dro: {plain(line)}", err=True)
    main = "report.html" if options.pack is None else "README.md"
    typer.echo(folder / main)
    if page:
        typer.echo(folder / PAGE)
        for line in (f"{PAGE} has {page.summary}.", *page.notes):
            typer.echo(f"nnunet-dro: {plain(line)}", err=True)


def _files(
    options: _Options,
    evaluation: "Evaluation",
    gallery: "list[GalleryEntry]",
    page: "Viewer | None",
) -> dict[str, str]:
    """The files to write, name to content, once they say what the scores give."""
    from nnunet_dro.viewer import PAGE

    links = page.links if page else {}
    viewer = {PAGE: page.html} if page else {}
    if options.pack is not None:
        from nnunet_dro.commands.evidence import pack_files

        return pack_files(
            evaluation,
            gallery,
            links,
            comparison=options.comparison,
            others=viewer,
        )

    from nnunet_dro.evaluation.report import evaluation_reports
    from nnunet_dro.evaluation.report.recheck import check_evaluation, is_recorded

    if is_recorded(evaluation):
        check_evaluation(evaluation)
    return {**evaluation_reports(evaluation, gallery, links), **viewer}


def _check_options(options: _Options) -> None:
    """Check that what is said of the pack, the pictures and the viewer fits together."""
    rules = (
        (
            options.comparison is not None and options.pack is None,
            "`comparison` must be given with the pack, got no pack. Name the pack's new folder: "
            "--pack.",
        ),
        (
            options.verify and (options.pack is not None or options.images is not None),
            "`verify` must be given alone, got other options. Give the folder of the pack alone.",
        ),
        (
            options.viewer and options.images is None,
            "`viewer` must be given with the images that it shows, got none. Name their folder: "
            "--images.",
        ),
        (
            options.per_stratum != _Options.per_stratum and options.images is None,
            "`per_stratum` must be given with the images to show, got none. Name their folder: "
            "--images.",
        ),
        (
            options.viewer_mb is not None and not options.viewer,
            "`viewer_mb` bounds cases.html, got it without --viewer, which writes that page. Give "
            "both.",
        ),
    )
    for is_broken, message in rules:
        if is_broken:
            raise ValueError(message)


def _gallery(options: _Options, evaluation: "Evaluation", images: Path) -> "list[GalleryEntry]":
    """Pictures of the worst cases; a line on standard error where there are none."""
    from nnunet_dro.evaluation.report import pictures_of

    with progress_bar("Drawing the worst cases") as progress:
        gallery = pictures_of(
            evaluation,
            images,
            per_stratum=options.per_stratum,
            progress=progress,
        )
    if not gallery:
        typer.echo("nnunet-dro: No pictures: no case has both a score and a prediction.", err=True)
    return gallery


def _viewer(options: _Options, evaluation: "Evaluation", images: Path) -> "Viewer":
    """The page of the worst cases."""
    from nnunet_dro.viewer import MOST_MB, viewer_page

    most_mb = MOST_MB if options.viewer_mb is None else options.viewer_mb
    with progress_bar("Packing the worst cases") as progress:
        return viewer_page(
            evaluation,
            images,
            per_stratum=options.per_stratum,
            most_mb=most_mb,
            progress=progress,
        )
