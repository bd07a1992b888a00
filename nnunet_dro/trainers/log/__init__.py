"""The logs that a training writes after each epoch.

CSV files, pictures, and lines in nnU-Net's log.
"""
