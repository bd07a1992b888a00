"""What draws the batches: data loaders, sub-volumes, trusted cases, groups of cases, shares of voxels."""
