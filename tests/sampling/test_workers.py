"""The table as other processes see it."""

import multiprocessing

import numpy as np
import pytest
import scipy  # whose parts are imported where they are used: not in the workers

from nnunet_dro.sampling import KL, Balanced, Chi2, CVaR, GroupDRO, HardnessTable, expected_draws
from tests.processes import running

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
GROUPS = ["many"] * 15 + ["few"] * 4 + ["one"]


def _draw_forever(table, seed, start, stop, failures):
    np.seterr(all="raise", under="ignore")
    rng = np.random.default_rng(seed)
    start.wait(timeout=600)
    while not stop.is_set():
        draws = table.draw(8, rng=rng)
        is_case = (draws.indices >= 0) & (draws.indices < len(table))
        # A probability may be a moment old, never nonsense.
        is_share = (draws.probabilities > 0) & np.isfinite(draws.probabilities)
        if not (is_case & is_share).all():
            failures.put(repr(draws))
            return
    failures.put("")


def _count_draws(table, seed, n_draws, counts, size=50):
    rng = np.random.default_rng(seed)
    found = np.zeros(len(table), dtype=int)
    for _ in range(n_draws // size):
        np.add.at(found, table.draw(size, rng=rng).indices, 1)
    counts.put(found)


@pytest.mark.parametrize(
    ("rule", "replace", "start_method"),
    [
        *(
            (rule, True, "spawn")
            for rule in (KL(3.0), CVaR(0.3), Balanced(GROUPS), GroupDRO(GROUPS, nu=2.0))
        ),
        *((rule, True, "fork") for rule in (KL(3.0), Chi2(3.0), CVaR(0.3, 0.1))),
        *((KL(3.0), False, "fork"), (KL(100.0), False, "spawn"), (CVaR(0.3), False, "fork")),
    ],
    ids=str,
)
def test_workers_draw_by_the_rule_that_follows_from_an_update(rule, replace, start_method):
    """Each worker sees the losses in the memory that it shares with the table."""
    context = multiprocessing.get_context(start_method)
    losses, (size, n_draws) = (
        np.random.default_rng(1).normal(0, 0.5, size=20),
        (50, 20_000) if replace else (3, 6_000),
    )
    table = HardnessTable([str(i) for i in range(20)], rule=rule, exploration=0.05, replace=replace)
    counts = context.Queue()
    workers = [(table, seed, n_draws, counts, size) for seed in range(2)]
    table.update(np.arange(20), losses[::-1])
    table.update(np.arange(20), losses)
    with running(context, _count_draws, *workers):
        total = sum(counts.get(timeout=600) for _ in workers)
    n_batches = 2 * (n_draws // size)
    probabilities = 0.95 * rule.probabilities(losses) + 0.05 / 20
    expected = n_batches * (
        size * probabilities if replace else expected_draws(probabilities, size=size)
    )

    certain = np.isclose(expected, n_batches) & (not replace)

    np.testing.assert_array_equal(total[certain], n_batches)
    assert scipy.stats.chisquare(total[~certain], expected[~certain]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("rule", "replace", "start_method"),
    [
        *((rule, True, "fork") for rule in (Chi2(20.0), CVaR(0.1, 0.01))),
        *((rule, False, "fork") for rule in (KL(100.0), Chi2(20.0))),
        *((KL(100.0), True, "spawn"), (CVaR(0.1, 0.01), False, "forkserver")),
    ],
    ids=str,
)
def test_draws_stay_valid_while_the_table_is_updated(rule, replace, start_method):
    """With each rule in both ways of drawing, and with each way of getting the table."""
    context = multiprocessing.get_context(start_method)
    table = HardnessTable([str(i) for i in range(3000)], rule=rule, replace=replace)
    start = context.Barrier(3)
    stop = context.Event()
    failures = context.Queue()
    workers = [(table, seed, start, stop, failures) for seed in range(2)]
    rng = np.random.default_rng(0)
    nothing_seen = HardnessTable(table.cases, beta=100.0).state_dict()
    with running(context, _draw_forever, *workers):
        start.wait(timeout=600)
        # Rules other than KL look at every case in each update.
        for step in range(12_000 if isinstance(rule, KL) else 6_000):
            if step % 3_000 == 0:
                table.load_state_dict(nothing_seen)  # the first visits again
            indices = (
                rng.integers(3000, size=2)
                if step % 3_000 > 1_500
                else (2 * step % 3_000, 2 * step % 3_000 + 1)
            )
            table.update(indices, rng.normal(scale=1 + step % 7, size=2))

        stop.set()
        assert [failures.get(timeout=600) for _ in workers] == [""] * 2


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_workers_see_what_changes_after_they_got_the_table(start_method):
    """The end of a warm-up, and a beta that was estimated."""
    context = multiprocessing.get_context(start_method)
    losses = np.random.default_rng(1).normal(0, 0.01, size=20)
    table = HardnessTable(
        [str(i) for i in range(20)], beta=1e4, exploration=0.0, replace=True, auto_beta=True
    )
    counts = context.Queue()
    go_on = context.Event()
    table.update(np.arange(20), losses)
    table.warming_up = True
    with running(context, _count_draws_twice, (table, counts, go_on)):
        before = counts.get(timeout=600)
        table.warming_up = False
        beta = table.estimate_beta()
        go_on.set()
        after = counts.get(timeout=600)

    assert scipy.stats.chisquare(before).pvalue > 1e-3
    assert beta == pytest.approx(1 / losses.std())
    assert scipy.stats.chisquare(after, KL(beta).probabilities(losses) * after.sum()).pvalue > 1e-3


def _count_draws_twice(table, counts, go_on):
    _count_draws(table, 0, 20_000, counts)
    go_on.wait(timeout=600)
    _count_draws(table, 1, 20_000, counts)
