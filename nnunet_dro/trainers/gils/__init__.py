"""The trainer that also trains on the worst neighbours of its images.

Only the registry of trainers knows this room.
"""
