"""The command `nnunet-dro explore`. Heavy modules are imported inside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nnunet_dro.commands.completion import complete_attribute, complete_label, complete_metric
from nnunet_dro.commands.shared import Output, Overwrite, argument, option, show_with_page, takes
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class _Options:
    results: Annotated[Path, argument("Output folder of evaluate.")]
    output: Output
    metric: Annotated[
        str | None,
        option(
            "Metric of the evaluation; default: dice, or else its first.",
            autocompletion=complete_metric,
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        option(
            "Label to look at; repeatable. Default: all of them.", autocompletion=complete_label
        ),
    ] = None
    by: Annotated[
        list[str] | None,
        option(
            "Attribute to combine, as for evaluate; repeatable. Default: those of the evaluation, "
            "and with --cases all columns of that table.",
            autocompletion=complete_attribute,
        ),
    ] = None
    cases: Annotated[
        Path | None, option("Case table with more columns; many numbers are cut into thirds.")
    ] = None
    max_attributes: Annotated[int, option("The most attributes of a combination, 1 to 3.")] = 2
    min_cases: Annotated[
        int, option("The fewest cases of a combination in each half of the cases.")
    ] = 5
    candidates: Annotated[
        int, option("The most combinations of the first half that are tested on the other.")
    ] = 3
    seed: Annotated[int, option("Random seed of the halves and the permutations.", min=0)] = 0
    overwrite: Overwrite = False


@takes(_Options)
def explore(options: _Options) -> None:
    """Find combinations of attributes with the worst scores, and confirm them on other cases.

    They are found in half of the cases, and confirmed on the other half.
    """
    from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
    from nnunet_dro.exploration.exploration import explore_evaluation
    from nnunet_dro.exploration.page import exploration_files
    from nnunet_dro.exploration.search import Limits
    from nnunet_dro.exploration.tables import exploration_table
    from nnunet_dro.files.output_folder import check_output, write_files

    check_output(
        options.output,
        overwrite=options.overwrite,
        inputs=[options.results],
        kinds=("exploration",),
    )
    evaluation = read_evaluation(options.results)
    with progress_bar("Looking at combinations") as progress:
        exploration = explore_evaluation(
            evaluation,
            metric=options.metric,
            labels=options.label or [],
            by=options.by,
            cases=options.cases,
            limits=Limits(options.max_attributes, options.min_cases, options.candidates),
            seed=options.seed,
            progress=progress,
        )
    write_files(options.output, exploration_files(exploration))
    show_with_page(exploration_table(exploration), options.output / "report.html")
