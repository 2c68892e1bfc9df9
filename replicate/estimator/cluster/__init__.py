"""Clusters: servers, the session of a worker, recovery after losses, and the watchdog.

`replicate.estimator.cluster_config` says which processes form the cluster.
"""
