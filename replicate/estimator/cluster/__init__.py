"""Clusters: servers, sessions that wait for the chief, recovery and the watchdog.

`replicate.estimator.cluster_config` says which processes form the cluster.
"""
