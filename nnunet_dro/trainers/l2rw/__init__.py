"""The trainer that learns weights from trusted cases; only the registry of trainers knows this room."""
