"""Benchmark of the time of a step on several towers. Run it with `python -m`.

Other benchmarks use its models and its ways of training too.
"""

WAYS = ("replicated", "by hand", "one tower", "MirroredStrategy")
