"""TPUClusterResolver, without a TPU."""

import pytest
import tensorflow as tf

from replicate import tpu


@pytest.mark.parametrize("name", [None, "", "local", [], b"local"])
def test_without_a_name_it_stands_for_this_process(name):
    resolver = tpu.TPUClusterResolver(name, "zone", "project", "worker", credentials=None)
    assert isinstance(resolver, tf.distribute.cluster_resolver.ClusterResolver)
    assert resolver.master() == resolver.get_master() == ""
    assert resolver.master("worker", 0, rpc_layer="grpc") == ""
    assert not resolver.cluster_spec().jobs
    assert resolver.get_job_name() is None
    assert tpu.TPUClusterResolver(tpu_names=["a"]).master() == "", "the old name of its argument"


@pytest.mark.parametrize("name", [["my-tpu"], b"my-tpu", "grpc://10.0.0.1:8470", None])
def test_a_named_tpu_and_any_hardware_are_missing_when_they_are_needed(name):
    resolver = tpu.TPUClusterResolver(name)
    methods = [resolver.num_accelerators, resolver.get_tpu_system_metadata]
    if name is not None:
        methods += [resolver.master, resolver.get_master, resolver.cluster_spec]
        methods.append(resolver.get_job_name)
    for method in methods:
        with pytest.raises(
            ValueError, match=r"^TPUClusterResolver\(.*\) was asked for its .*use_tpu=F"
        ):
            method()
