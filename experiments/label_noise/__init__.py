"""nnU-Net with wrong labels in the training data: what each training method makes of them."""
