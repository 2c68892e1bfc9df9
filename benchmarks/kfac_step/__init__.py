"""Benchmark of the time of a K-FAC step. Run it with `python -m`.

`benchmarks.memory` and `benchmarks.start` use its models too.
"""

MODELS = ("convnet", "autoencoder")
NETWORKS = ("resnet20", "resnet56", "resnet50")
"""Residual networks."""
OPTIMIZERS = ("momentum", "K-FAC")
INVERT_EVERY = 10
"""Steps between two updates of K-FAC's inverses."""
AVERAGE_EVERY = 10
"""Steps between two updates of K-FAC's averages on residual networks."""
INVERT_RESIDUAL_EVERY = 100
"""Steps between two updates of each inverse there."""
