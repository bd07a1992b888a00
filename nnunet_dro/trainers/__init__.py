"""nnU-Net trainers that train for the hardest patients.

There is one file per trainer, and file = class = name after -tr.

Import from the modules, as with nnU-Net's own trainers: `HardnessWeighted` from
``hardness_weighted``, `trainer_class` from ``registry``. This package does not import them itself,
so that `installation` works without nnU-Net.
"""
