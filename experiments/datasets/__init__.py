"""The data of the experiments: phantoms, the hippocampus data and digits."""
