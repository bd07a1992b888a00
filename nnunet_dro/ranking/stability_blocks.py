"""What the page of a ranking says of how far one can rely on the ranks."""

from collections.abc import Iterator

import numpy as np

from nnunet_dro.pages.document import Block, Heading, Prose
from nnunet_dro.ranking import stability_tables as tables
from nnunet_dro.ranking.figures import blob_plot, team_legend
from nnunet_dro.ranking.podium import MOST_CASES, MOST_TEAMS, podium_plot
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.stability import consensus_shares
from nnunet_dro.ranking.tables import say


def stability(ranking: Ranking) -> Iterator[Block]:
    """How the ranks change when the cases are drawn again; nothing without samples."""
    samples = ranking.samples
    if samples.empty:
        return

    yield Heading("Stability", anchor="stability", short="Stability")
    yield Prose(
        "How often each team has each rank when the cases are drawn again, with replacement: the "
        "area of a blob is the share of the samples. The line spans 95 % of them, the cross is the "
        "median."
    )
    columns = [f"share_{place + 1}" for place in range(len(ranking.teams))]
    ends = (samples["rank_low"], samples["rank_median"], samples["rank_high"])
    yield blob_plot(
        ranking.teams,
        samples[columns].to_numpy(dtype=np.float64),
        list(zip(*ends, strict=True)),
        label="How often each team has each rank",
    )
    yield Heading("Kendall’s tau of the samples’ rankings and the full one", 3)
    yield tables.taus_table(ranking)
    if not ranking.parts.empty:
        yield Heading("By metric, label and stratum", 3)
        yield tables.parts_table(ranking)


def consensus(ranking: Ranking) -> Iterator[Block]:
    """What the rankings by metric and label have in common."""
    yield Heading("Metrics and labels", anchor="tasks", short="Metrics and labels")
    yield Prose(say("consensus", ranking))
    ranks = ranking.task_ranks
    shares = consensus_shares(ranks, np.array(ranking.weights))
    ranked = ranks[~np.isnan(ranks).any(axis=1)]
    ends = np.quantile(ranked, (0, 0.5, 1), axis=0, method="inverted_cdf").T.tolist()
    yield blob_plot(
        ranking.teams,
        shares,
        [tuple(three) for three in ends],
        label="How often each team has each rank over the metrics and labels",
        draws="rankings",
    )
    yield Heading("Agreement with the consensus", 3)
    yield tables.agreement_table(ranking)
    yield Heading("Ranks by metric and label", 3)
    yield Prose("The rank of each team, and what it was ranked by. The darker, the further back.")
    yield tables.tasks_table(ranking)


def podiums(ranking: Ranking) -> Iterator[Block]:
    """The podiums of the first metric, one for each label."""
    teams = ranking.teams[:MOST_TEAMS]
    metric = ranking.metrics[0]
    yield Heading(f"Podiums by {metric.title}", anchor="podiums", short="Podiums")
    about = say("podiums", ranking, n_teams=len(teams), most_cases=MOST_CASES)
    yield Prose(about)
    for place, task in enumerate(ranking.tasks):
        if task.metric != metric.name:
            continue
        rows = ranking.podium
        rows = rows[(rows["metric"] == task.metric) & (rows["label"] == task.label)]
        values = None
        if ranking.values is not None:
            values = ranking.values[place, : len(teams)]
        yield Heading(task.label, 3)
        yield podium_plot(
            teams,
            rows.filter(like="share_").to_numpy(dtype=np.float64),
            values,
            metric,
            label=f"Podiums of {task.label}",
        )
    yield team_legend(teams)
