"""Benchmark of the time of a K-FAC step. Run it with `python -m`.

`benchmarks.memory` uses its models too.
"""

MODELS = ("convnet", "autoencoder")
