"""Benchmark of the Estimator's overhead per training step. Run it with `python -m`."""
