"""Measurement and simulation of training on a cluster.

`python -m benchmarks.scaling.cluster_points` measures a small cluster on this machine,
`python -m benchmarks.scaling` fits the simulator to the measurements and draws larger clusters.
"""
