"""Measurement of training on a cluster of processes on this machine.

`cluster_points` measures parameter servers, `all_reduce_points` equal workers without servers.
"""
