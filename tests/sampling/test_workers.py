"""The table as other processes see it."""

import multiprocessing

import numpy as np
import pytest

from nnunet_dro.sampling import HardnessTable


def _draw_forever(table, seed, stop, failures):
    np.seterr(all="raise", under="ignore")
    rng = np.random.default_rng(seed)
    while not stop.is_set():
        draws = table.draw(8, rng=rng)
        valid = (draws.indices >= 0).all() and (draws.indices < len(table)).all()
        # A probability may be a moment old, never nonsense.
        if not (valid and np.isfinite(draws.probabilities).all() and (draws.probabilities > 0).all()):
            failures.put(repr(draws))
            return
    failures.put("")


@pytest.mark.parametrize("start_method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_draws_stay_valid_while_the_table_is_updated(start_method):
    context = multiprocessing.get_context(start_method)
    table = HardnessTable([str(i) for i in range(3000)], beta=100.0)
    stop, failures = context.Event(), context.Queue()
    workers = [context.Process(target=_draw_forever, args=(table, seed, stop, failures)) for seed in range(3)]
    for worker in workers:
        worker.start()
    rng = np.random.default_rng(0)
    nothing_seen = HardnessTable(table.cases, beta=100.0).state_dict()
    for step in range(30_000):
        if step % 3_000 == 0:
            table.load_state_dict(nothing_seen)  # the first visits again
        indices = rng.integers(3000, size=2) if step % 3_000 > 1_500 else (2 * step % 3_000, 2 * step % 3_000 + 1)
        table.update(indices, rng.normal(scale=1 + step % 7, size=2))
    stop.set()
    assert [failures.get(timeout=60) for _ in workers] == [""] * 3
    for worker in workers:
        worker.join(timeout=60)
