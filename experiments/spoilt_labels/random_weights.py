"""The control of learning to reweight: weights that know nothing of the cases."""

import numpy as np
import torch
from torch import Tensor


def random_weights(n: int, rng: np.random.Generator) -> Tensor:
    """max(z, 0) / sum max(z, 0), z standard normal (Ren et al. 2018, section 4.1).

    All 0 where no z is above 0.
    """
    z = np.maximum(rng.standard_normal(n), 0)
    return torch.from_numpy(z / max(z.sum(), np.finfo(float).tiny)).float()
