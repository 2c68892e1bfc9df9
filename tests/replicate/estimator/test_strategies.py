"""Strategies of tf.distribute, and what they ask for."""

import pytest
import tensorflow as tf

from replicate.estimator.strategies import strategy_request

v1 = tf.compat.v1
distribute, distribute1 = tf.distribute, v1.distribute


@pytest.mark.parametrize(
    ("make", "devices"),
    [
        (lambda: distribute.MirroredStrategy(["/cpu:0"]), ("/device:CPU:0",)),
        (
            lambda: distribute1.MirroredStrategy(["/gpu:0", "/gpu:1"]),
            ("/device:GPU:0", "/device:GPU:1"),
        ),
        (lambda: distribute.OneDeviceStrategy("/gpu:1"), ("/device:GPU:1",)),
    ],
)
def test_a_strategy_names_the_devices_of_the_towers(make, devices, graph):
    # In a graph: eagerly, a strategy makes tensors on its devices, which must be there.
    request = strategy_request("train_distribute", make())
    assert request is not None
    assert request.devices == devices


@pytest.mark.parametrize("name", ["CentralStorageStrategy", "ParameterServerStrategy"])
def test_strategies_with_central_variables_have_the_towers_of_this_process(name, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    request = strategy_request("train_distribute", getattr(distribute1.experimental, name)())
    assert request is not None
    assert len(request.devices) >= 1


def test_other_values_are_refused():
    assert strategy_request("train_distribute", None) is None
    with pytest.raises(ValueError, match=r"RunConfig: eval_distribute must be a Mirr.*got "):
        strategy_request("eval_distribute", "mirrored")
