"""The group of workers in which a process trains."""

import tensorflow as tf

import replicate
from replicate.estimator.cluster import worker_group
from replicate.estimator.cluster_config import ClusterConfig


def test_keys_of_collectives_stay_32_bit_numbers_in_thousands_of_calls(graph, monkeypatch):
    cluster = ClusterConfig({"chief": ("a:1",), "worker": ("b:1",)}, "chief", 0)
    config = replicate.RunConfig(cluster=cluster, train_distribute=replicate.AllReduce())
    own = worker_group._OwnServer(None)
    monkeypatch.setitem(worker_group._SERVERS, config.master, own)
    keys = []
    for own.calls in (0, 1, 2146, 2147, 1_000_007):
        group, call = worker_group.join_group(config)
        keys.append(group.sum(tf.zeros([])).op.get_attr("instance_key"))
    assert call == 1_000_008
    assert len(set(keys)) == 5, "calls that follow each other share none"
    assert max(keys) + worker_group.KEYS_PER_CALL < 2**31
