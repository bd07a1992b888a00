"""Rare modalities of cell nuclei: what does a short finetuning of a plain training give?

    python -m experiments.nuclei.finetuning --data Dataset022_DSBNuclei [--seeds 0 1] [--add] [--quick] [--out F]

The plain training of each seed, four minutes of a processor core, is continued for a tenth of its iterations in several
ways, half a minute each. Plain networks and finished runs are kept in the cache.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from experiments.curves import Roles, ScoredRun, decision, differences, draw_differences, results_table, scores_of
from experiments.nuclei.__main__ import divided_images, minutes, nuclei_parser, plan
from experiments.nuclei.methods import METHODS, PLAIN, ROLES, TOLD
from experiments.nuclei.network import UNet
from experiments.nuclei.training import LEARNING_RATE, OptimisedRun, Run, new_network, train
from experiments.record import (
    add_more_seeds,
    added_seeds,
    cached_runs,
    module_command,
    render,
    result_folder,
    with_seeds_before,
    write_result,
    write_table,
)
from nnunet_dro.files.atomic import replacing

#: The method that is trained anew, too.
DRO = "share0.5"
#: Method to the method whose way of drawing it takes, each from the plain network of its seed.
FINETUNED = {f"{name}, from plain": name for name in (PLAIN, DRO, TOLD)}
#: The same with smaller learning rates, added after the results of the others were known.
SLOWER = {f"{name}, lr {rate}": (name, rate) for name in (PLAIN, DRO) for rate in (0.003, 0.001)}
METHODS_IN_ORDER = (PLAIN, *FINETUNED, *SLOWER, DRO)
#: Makes a run.
Making = Callable[[str, Callable[[float], None]], dict[str, object]]
#: The roles of the methods at their ends.
FINETUNING_ROLES = Roles(PLAIN, f"{TOLD}, from plain", common=ROLES.common, rare=ROLES.rare)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = nuclei_parser("nuclei.finetuning", str(__doc__).splitlines()[0])
    add_more_seeds(parser)
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    seeds, iterations = plan(arguments)
    images_of = divided_images(arguments.data, parser, quick=arguments.quick)
    networks: Path = arguments.cache / "finetuning"
    anew = {f"{DRO}-seed{seed}": Run(METHODS[DRO], seed, iterations) for seed in seeds}
    started = {f"{PLAIN}-seed{seed}": Run(METHODS[PLAIN], seed, iterations) for seed in seeds}
    runs = started | {
        f"{method}-seed{seed}": Run(METHODS[drawing], seed, max(1, iterations // 10))
        for seed in seeds
        for method, drawing in FINETUNED.items()
    }

    runs |= {
        f"{method}-seed{seed}": OptimisedRun(METHODS[drawing], seed, max(1, iterations // 10), rate)
        for seed in seeds
        for method, (drawing, rate) in SLOWER.items()
    }

    def make_anew(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        return asdict(train(anew[name], *images_of(anew[name].seed), progress=progress))

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        run, is_first = runs[name], name in started
        weights, network = networks / f"seed{run.seed}-{iterations}.pt", new_network(run.seed)
        if not is_first:
            network.load_state_dict(torch.load(weights, weights_only=True))
        trained = train(run, *images_of(run.seed), progress=progress, network=network, fill=not is_first)
        if is_first:
            _save(network, weights)
        return asdict(trained)

    def made_of(group: Mapping[str, Run], cache: Path, making: Making) -> dict[str, dict[str, Any]]:
        keys = {name: asdict(run) for name, run in group.items()}
        return cached_runs(
            cache, keys, making, minutes=lambda name: minutes(group[name].iterations), jobs=arguments.jobs
        )

    made = made_of(anew, arguments.cache, make_anew) | made_of(started, networks, make)
    # Now the networks are there from which these start.
    made |= made_of({name: run for name, run in runs.items() if name not in started}, networks, make)
    scored = (ScoredRun.of(name, (anew | runs)[name], content, label="nucleus") for name, content in made.items())
    folder = result_folder(arguments.out, quick=arguments.quick)
    path = folder / "nuclei-finetuning-all.csv"
    try:
        ends = with_seeds_before(at_the_end(scores_of(scored)), path, add=arguments.add)
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    write_table(path, at_the_end(ends), float_format="%.4f")
    # The page shows what is in the file, rounded once.
    scores = pd.read_csv(path)
    all_seeds = sorted(scores["seed"].unique().tolist())
    text, found = page_of(scores, seeds=all_seeds)
    page = write_result(
        folder,
        "nuclei-finetuning",
        title="Finetuning a plain training on rare modalities of cell nuclei",
        text=text,
        table=page_table(found),
        shown=shown_table(page_table(found)),
        figure=draw_differences(found, scores, FINETUNING_ROLES),
        command=module_command("experiments.nuclei.finetuning", argv, seeds=all_seeds),
        seeds=all_seeds,
        added=added_seeds(seeds, scores),
        quick=arguments.quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    sys.stdout.write(f"{page}\n")


def at_the_end(scores: pd.DataFrame) -> pd.DataFrame:
    """The last moment of every training, plain training first."""
    last = scores.groupby(["method", "seed"])["iteration"].transform("max")
    order = [*METHODS_IN_ORDER, *FINETUNING_ROLES.strata]
    return scores[scores["iteration"] == last].sort_values(
        ["method", "stratum", "seed"], key=lambda column: column.map(order.index) if column.dtype != int else column
    )


def page_of(scores: pd.DataFrame, *, seeds: Sequence[int]) -> tuple[str, pd.DataFrame]:
    """The text of the page above its table, and the differences to the plain training.

    Args:
        scores: From `at_the_end`.
        seeds: Seeds of the trainings.
    """
    lengths = scores.drop_duplicates("method").set_index("method")["iteration"]
    # Trainings of different lengths are compared at their ends.
    found = differences(scores.assign(iteration=0), FINETUNING_ROLES)
    gains = found[found["stratum"].isin(ROLES.rare)].groupby("method", sort=False)["difference"].mean()
    rows = decision(scores.assign(iteration=0), FINETUNING_ROLES).set_index("method").assign(rare=gains)
    rows = rows.loc[[name for name in METHODS_IN_ORDER if name != PLAIN]]
    text = render(
        "nuclei/finetuning",
        rows=rows.reset_index().to_dict("records"),
        trainers={method: METHODS[drawing] for method, drawing in FINETUNED.items()},
        lengths=lengths.to_dict(),
        plain=PLAIN,
        dro=DRO,
        rate=LEARNING_RATE,
        slower=list(SLOWER),
        n_seeds=len(seeds),
    )
    return text, found


def page_table(found: pd.DataFrame) -> pd.DataFrame:
    """The table of the page."""
    return results_table(found, FINETUNING_ROLES).drop(columns="iteration")


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that the page shows."""
    return table.drop(columns=["seeds", "p10", "share"])


def _save(network: UNet, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        torch.save(network.state_dict(), partial)


if __name__ == "__main__":
    main()
