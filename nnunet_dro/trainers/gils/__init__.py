"""The trainer that also trains on the worst neighbours of its images; only the registry of trainers knows this room."""
