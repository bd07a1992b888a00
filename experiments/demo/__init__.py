"""The demo of this package, again and again: on data and weights of several seeds."""
