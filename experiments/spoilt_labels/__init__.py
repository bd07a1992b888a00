"""What experiments with wrong labels share.

How labels are spoilt, and whether a training can tell.
"""
