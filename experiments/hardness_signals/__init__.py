"""What a stale loss says.

How much of it is due to the case, and how much to where the patch fell.
"""
