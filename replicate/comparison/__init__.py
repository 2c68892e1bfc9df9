"""Comparison of N towers with one: `check_replication`, and the differences that it found."""
