"""Losses of cases to test rules with, and tables that hold them."""

import numpy as np
from hypothesis import strategies as st

from nnunet_dro.sampling import HardnessTable

# Tenths have many ties, floats hardly any.
one_loss = st.one_of(st.floats(-5, 5), st.integers(-20, 20).map(lambda tenths: tenths / 10))
some_losses = st.lists(one_loss, min_size=1, max_size=25).map(np.array)
betas = st.one_of(
    st.floats(0, 1000, allow_subnormal=False), st.sampled_from([0.0, 1e-12, 1e-6, 1.0, 1e8])
)
alphas = st.one_of(st.floats(0, 1, exclude_min=True), st.sampled_from([0.1, 0.2, 0.25, 0.5, 1.0]))
epsilons = st.one_of(st.floats(0, 0.99), st.sampled_from([0.0, 0.01, 0.1, 0.29, 0.5]))
SIZES = [1, 2, 3, 7, 40]


def random_losses(n, *, ties):
    losses = np.random.default_rng(n).normal(size=n)
    return np.round(losses * 2) / 2 if ties else losses


def table_with(losses, **options):
    """A table in which every case was seen with its loss."""
    table = HardnessTable(
        [f"case_{i}" for i in range(len(losses))], **{"beta": 5.0, "exploration": 1e-4, **options}
    )
    table.update(np.arange(len(losses)), losses)
    return table


def draw_counts(table, n_draws, seed=0, size=50):
    """How often each case is drawn."""
    rng = np.random.default_rng(seed)
    return sum(
        np.bincount(table.draw(size, rng=rng).indices, minlength=len(table))
        for _ in range(n_draws // size)
    )
