"""Benchmark of saving and restoring checkpoints. Run it with `python -m`."""
