"""Residual networks with K-FAC, for the benchmarks of a step, of memory and of the start."""

NETWORK_NAMES = ("resnet20", "resnet56", "resnet50")
OPTIMIZERS = ("momentum", "K-FAC")
AVERAGE_EVERY = 10
"""Steps between two updates of K-FAC's averages."""
INVERT_EVERY = 100
"""Steps between two updates of each of K-FAC's inverses."""
