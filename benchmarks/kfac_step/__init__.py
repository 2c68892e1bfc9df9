"""Benchmark of the time of a K-FAC step. Run it with `python -m`.

`benchmarks.memory` uses its models too.
"""

MODELS = ("convnet", "autoencoder")
INVERT_EVERY = 10
"""Steps between two updates of K-FAC's inverses."""
