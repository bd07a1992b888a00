"""The command `nnunet-dro explore`. Heavy modules are imported inside it."""

from pathlib import Path
from typing import Annotated

from nnunet_dro.commands.completion import complete_attribute, complete_label, complete_metric
from nnunet_dro.commands.shared import Output, Overwrite, argument, option, show
from nnunet_dro.progress_bar import progress_bar


def explore(
    *,
    results: Annotated[Path, argument("Output folder of evaluate.")],
    output: Output,
    metric: Annotated[
        str | None,
        option("Metric of the evaluation; default: dice, or else its first.", autocompletion=complete_metric),
    ] = None,
    label: Annotated[
        list[str] | None, option("Label to look at; repeatable. Default: all of them.", autocompletion=complete_label)
    ] = None,
    by: Annotated[
        list[str] | None,
        option(
            "Attribute to combine, as for evaluate; repeatable. Default: those of the evaluation, and all columns "
            "of the case table.",
            autocompletion=complete_attribute,
        ),
    ] = None,
    cases: Annotated[
        Path | None, option("Case table with more columns; those with many numbers are cut into thirds.")
    ] = None,
    max_attributes: Annotated[int, option("The most attributes of a combination, 1 to 3.")] = 2,
    min_cases: Annotated[int, option("The fewest cases of a combination in each half of the cases.")] = 5,
    candidates: Annotated[int, option("The most combinations of the first half that are tested on the other.")] = 3,
    seed: Annotated[int, option("Random seed of the halves and the permutations.", min=0)] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Find combinations of attributes with the worst scores in half of the cases, confirm them on the others."""
    from nnunet_dro.evaluation.result_files import read_evaluation
    from nnunet_dro.exploration.exploration import explore_evaluation
    from nnunet_dro.exploration.page import exploration_files, exploration_table
    from nnunet_dro.files.output_folder import check_output, write_files

    check_output(output, overwrite=overwrite)
    evaluation = read_evaluation(results)
    with progress_bar("Looking at combinations") as progress:
        exploration = explore_evaluation(
            evaluation,
            metric=metric,
            labels=label or [],
            by=by,
            cases=cases,
            max_attributes=max_attributes,
            min_cases=min_cases,
            n_candidates=candidates,
            seed=seed,
            progress=progress,
        )
    write_files(output, exploration_files(exploration))
    show(exploration_table(exploration), output / "report.html")
