"""The data of a training: data loaders, sub-volumes, trusted cases, groups of cases, and shares of voxels."""
