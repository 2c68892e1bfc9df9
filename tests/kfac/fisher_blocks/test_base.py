import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import FisherBlock, FullyConnectedKFACBasicFB
from kfac.fisher_blocks.base import as_tuple

v1 = tf.compat.v1


def test_is_abstract(graph):
    with pytest.raises(TypeError, match=r"abstract"):
        FisherBlock(kfac.LayerCollection(), v1.get_variable("w", [2, 2]))


def test_as_tuple():
    assert as_tuple(("w", "b")) == as_tuple(["w", "b"]) == ("w", "b")
    assert as_tuple("w") == ("w",)


@pytest.mark.parametrize("has_bias", [False, True])
def test_towers(graph, has_bias):
    w, b = v1.get_variable("fc/w", [2, 3]), v1.get_variable("fc/b", [3])
    block = FullyConnectedKFACBasicFB(kfac.LayerCollection(), (w, b) if has_bias else w)
    assert (block.name, block.has_bias, block.num_registered_towers) == ("fc/w", has_bias, 0)
    tensors = []
    for device in ("/cpu:1", "/cpu:3"):
        with v1.device(device):
            tensors.append((tf.ones([4, 2]), tf.ones([4, 3])))
        block.register_additional_tower(*tensors[-1])
    assert block.num_registered_towers == 2
    assert block.inputs == tuple(x for x, _ in tensors)
    assert block.tensors_to_compute_grads() == tuple(s for _, s in tensors)
    assert block.devices == ("/device:CPU:1", "/device:CPU:3")
