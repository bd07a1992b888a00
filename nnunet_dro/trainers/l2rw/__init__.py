"""The trainer that learns weights from trusted cases.

Only the registry of trainers knows this room.
"""
