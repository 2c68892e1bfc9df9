"""Measurement of training on a cluster of processes on this machine. Run it with `python -m`."""
