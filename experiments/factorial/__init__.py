"""The settings of Fidon et al. 2022, every one with every other."""
