"""Strategies with the arguments of TensorFlow 1.8 to 1.15."""

import pytest
import tensorflow as tf

import replicate
from replicate.compat.tf1_view import tensorflow1
from replicate.estimator.strategies import strategy_request

distribute = tensorflow1().contrib.distribute


@pytest.mark.parametrize(
    ("make", "devices"),
    [
        (lambda: distribute.MirroredStrategy(["/cpu:0"]), ["CPU:0"]),
        (lambda: distribute.MirroredStrategy(num_gpus=2), ["GPU:0", "GPU:1"]),
        (lambda: distribute.MirroredStrategy(None, 1), ["GPU:0"]),
        (lambda: distribute.MirroredStrategy(num_gpus=0), ["CPU:0"]),
        (lambda: distribute.MirroredStrategy(num_gpus_per_worker=0), ["CPU:0"]),
        (
            lambda: distribute.MirroredStrategy(
                num_gpus_per_worker=2,
                cross_tower_ops=distribute.AllReduceCrossTowerOps("nccl", num_packs=2),
            ),
            ["GPU:0", "GPU:1"],
        ),
        (lambda: distribute.OneDeviceStrategy("/gpu:1"), ["GPU:1"]),
    ],
)
def test_strategies_name_their_devices(make, devices, graph):
    # In a graph, as in an old program: eagerly, a strategy makes tensors on its devices.
    found = strategy_request("train_distribute", make())
    assert found.devices == tuple(f"/device:{name}" for name in devices)


def test_parameter_servers_leave_a_process_its_devices(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert strategy_request("train_distribute", distribute.ParameterServerStrategy()).devices


def test_reductions_are_objects_of_tf_distribute():
    assert isinstance(distribute.AllReduceCrossDeviceOps(), tf.distribute.NcclAllReduce)
    assert distribute.CollectiveAllReduceStrategy(num_gpus_per_worker=2) == replicate.AllReduce()
    hierarchical = distribute.AllReduceCrossDeviceOps("hierarchical_copy")
    assert isinstance(hierarchical, tf.distribute.HierarchicalCopyAllReduce)


@pytest.mark.parametrize("arguments", [{"num_gpus": -1}, {"num_gpus": 1, "devices": ["/gpu:0"]}])
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match=r"takes devices or num_gpus >= 0, got devices="):
        distribute.MirroredStrategy(**arguments)


def test_devices_are_listed_by_name():
    assert "/device:CPU:0" in tensorflow1().contrib.eager.list_devices()


def test_functions_tell_that_no_strategy_is_in_force(graph):
    assert not distribute.has_distribution_strategy()
    assert distribute.get_distribution_strategy().num_replicas_in_sync == 1
    assert distribute.DistributionStrategy is tf.compat.v1.distribute.Strategy
    assert distribute.get_tower_context().num_replicas_in_sync == 1
    assert not distribute.in_cross_tower_context()
