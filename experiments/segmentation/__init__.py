"""nnU-Net on data with a known hidden stratum: which training finds the rare cases, and what do the other cases pay?"""
