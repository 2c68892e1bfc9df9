"""Benchmark of the time of a K-FAC step. Run it with `python -m`.

The memory benchmarks and `benchmarks.rival_step` use its models too.
"""

MODELS = ("convnet", "autoencoder")
