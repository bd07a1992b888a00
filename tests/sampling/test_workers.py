"""The table as other processes see it."""

import multiprocessing

import numpy as np
import pytest
import scipy  # whose parts are imported where they are used: not in the workers

from nnunet_dro.sampling import KL, Balanced, Chi2, CVaR, GroupDRO, HardnessTable, expected_draws

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
GROUPS = ["many"] * 15 + ["few"] * 4 + ["one"]


def _draw_forever(table, seed, stop, failures):
    np.seterr(all="raise", under="ignore")
    rng = np.random.default_rng(seed)
    while not stop.is_set():
        draws = table.draw(8, rng=rng)
        valid = (draws.indices >= 0).all() and (draws.indices < len(table)).all()
        # A probability may be a moment old, never nonsense.
        if not (
            valid and np.isfinite(draws.probabilities).all() and (draws.probabilities > 0).all()
        ):
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
    """The table is handed over before its losses are known, as nnU-Net's workers get it."""
    context = multiprocessing.get_context(start_method)
    losses, (size, n_draws) = (
        np.random.default_rng(1).normal(0, 0.5, size=20),
        (50, 20_000) if replace else (3, 6_000),
    )
    table = HardnessTable([str(i) for i in range(20)], rule=rule, exploration=0.05, replace=replace)
    counts = context.Queue()
    workers = [
        context.Process(target=_count_draws, args=(table, seed, n_draws, counts, size))
        for seed in range(2)
    ]
    table.update(np.arange(20), losses[::-1])
    table.update(np.arange(20), losses)
    for worker in workers:
        worker.start()
    total = sum(counts.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join(timeout=60)
    n_batches = 2 * (n_draws // size)
    probabilities = 0.95 * rule.probabilities(losses) + 0.05 / 20
    expected = n_batches * (
        size * probabilities if replace else expected_draws(probabilities, size=size)
    )

    certain = np.isclose(expected, n_batches) & (not replace)

    np.testing.assert_array_equal(total[certain], n_batches)
    assert scipy.stats.chisquare(total[~certain], expected[~certain]).pvalue > 1e-3


@pytest.mark.parametrize("rule", [KL(100.0), Chi2(20.0), CVaR(0.1, 0.01)], ids=str)
@pytest.mark.parametrize(
    ("start_method", "replace"), [("fork", False), ("spawn", True), ("forkserver", False)]
)
def test_draws_stay_valid_while_the_table_is_updated(start_method, replace, rule):
    context = multiprocessing.get_context(start_method)
    table = HardnessTable([str(i) for i in range(3000)], rule=rule, replace=replace)
    stop = context.Event()
    failures = context.Queue()
    workers = [
        context.Process(target=_draw_forever, args=(table, seed, stop, failures))
        for seed in range(3)
    ]
    for worker in workers:
        worker.start()
    rng = np.random.default_rng(0)
    nothing_seen = HardnessTable(table.cases, beta=100.0).state_dict()
    # Rules other than KL look at every case in each update.
    for step in range(30_000 if isinstance(rule, KL) else 6_000):
        if step % 3_000 == 0:
            table.load_state_dict(nothing_seen)  # the first visits again
        indices = (
            rng.integers(3000, size=2)
            if step % 3_000 > 1_500
            else (2 * step % 3_000, 2 * step % 3_000 + 1)
        )
        table.update(indices, rng.normal(scale=1 + step % 7, size=2))

    stop.set()

    assert [failures.get(timeout=60) for _ in workers] == [""] * 3

    for worker in workers:
        worker.join(timeout=60)


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
    worker = context.Process(target=_count_draws_twice, args=(table, counts, go_on))
    table.update(np.arange(20), losses)
    table.warming_up = True
    worker.start()
    before = counts.get(timeout=60)
    table.warming_up = False
    beta = table.estimate_beta()
    go_on.set()
    after = counts.get(timeout=60)

    worker.join(timeout=60)

    assert scipy.stats.chisquare(before).pvalue > 1e-3
    assert beta == pytest.approx(1 / losses.std())
    assert scipy.stats.chisquare(after, KL(beta).probabilities(losses) * after.sum()).pvalue > 1e-3


def _count_draws_twice(table, counts, go_on):
    _count_draws(table, 0, 20_000, counts)
    go_on.wait(timeout=60)
    _count_draws(table, 1, 20_000, counts)
