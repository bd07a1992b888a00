"""Losses of cases to test rules with."""

import numpy as np
from hypothesis import strategies as st

# Tenths have many ties, floats hardly any.
one_loss = st.one_of(st.floats(-5, 5), st.integers(-20, 20).map(lambda tenths: tenths / 10))
some_losses = st.lists(one_loss, min_size=1, max_size=25).map(np.array)
betas = st.one_of(st.floats(0, 1000, allow_subnormal=False), st.sampled_from([0.0, 1e-12, 1e-6, 1.0, 1e8]))
alphas = st.one_of(st.floats(0, 1, exclude_min=True), st.sampled_from([0.1, 0.2, 0.25, 0.5, 1.0]))
epsilons = st.one_of(st.floats(0, 0.99), st.sampled_from([0.0, 0.01, 0.1, 0.29, 0.5]))

SIZES = [1, 2, 3, 7, 40]


def random_losses(n, *, ties):
    losses = np.random.default_rng(n).normal(size=n)
    return np.round(losses * 2) / 2 if ties else losses
