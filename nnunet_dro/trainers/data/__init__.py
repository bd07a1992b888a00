"""The data of a training: data loaders, sub-volumes, groups of cases, and shares of voxels."""
