"""Batch normalization over towers: its statistics are found, and merged or folded in turn."""
