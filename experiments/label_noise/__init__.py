"""nnU-Net with wrong labels in the training data: what each training makes of them."""
