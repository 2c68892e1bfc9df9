"""Checks on a machine with GPUs, in one command. Run it with `python -m`."""
