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


def test_old_and_new_names_of_its_arguments():
    assert tpu.TPUClusterResolver(tpu=None, zone=None, project=None).master() == ""
    assert tpu.TPUClusterResolver(tpu_names=["a"]).master() == ""


@pytest.mark.parametrize("method", ["master", "get_master", "cluster_spec", "get_job_name"])
@pytest.mark.parametrize("name", ["my-tpu", ["my-tpu"], b"my-tpu", "grpc://10.0.0.1:8470"])
def test_a_named_tpu_fails_when_it_is_needed(method, name):
    resolver = tpu.TPUClusterResolver(name)
    with pytest.raises(
        ValueError, match=r"^TPUClusterResolver\('.*'\) was asked for its .*use_tpu=F"
    ):
        getattr(resolver, method)()


@pytest.mark.parametrize("method", ["num_accelerators", "get_tpu_system_metadata"])
def test_hardware_is_always_missing(method):
    with pytest.raises(
        ValueError, match=r"^TPUClusterResolver\(None\) was asked for its .*use_tpu"
    ):
        getattr(tpu.TPUClusterResolver(), method)()
