"""A rare digit: hardness weighted sampling on MNIST, with few training images of one digit."""
