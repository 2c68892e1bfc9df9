"""Benchmarks of the packages: speed, memory and training loss, compared with alternatives."""
