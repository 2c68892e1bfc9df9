import pytest
import tensorflow as tf

from benchmarks.kfac_step import MODELS, step_programs


@pytest.mark.parametrize("model", MODELS)
def test_layer_sizes_match_registered_blocks(model):
    build = {
        "convnet": step_programs.build_convnet,
        "autoencoder": step_programs.build_autoencoder,
    }[model]
    with tf.Graph().as_default():
        _, layers = build(tf.zeros([2, 28, 28, 1]))
        layers.finalize()
        found = [block.matrix_shape for block in layers.get_blocks()]
    sizes = step_programs.layer_sizes(model)
    assert found == [(size.inputs, size.outputs) for size in sizes]
    assert [size.is_first for size in sizes] == [True] + [False] * (len(sizes) - 1)
