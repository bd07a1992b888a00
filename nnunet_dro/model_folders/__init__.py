"""What becomes of a trained model: another training that starts from it, or a file for others."""
