"""Benchmark of the steps and seconds that optimizers need to reach a loss. Run with `python -m`."""
