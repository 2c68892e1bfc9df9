"""Batch normalization over towers: its updates are found, and merged or made in turn."""
