"""nnU-Net on data with a known hidden stratum.

Which training finds the rare cases, and what do the other cases pay?
"""
