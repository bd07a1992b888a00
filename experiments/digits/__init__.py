"""A rare digit: hardness weighted sampling on MNIST with most of one digit's training images taken away."""
