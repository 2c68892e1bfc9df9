"""Names that TensorFlow still has, in the place where programs of TensorFlow 1 find them."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.compat.old_tensorflow import columns
from replicate.compat.tf1_view import tensorflow1

v1 = tf.compat.v1
VIEW = tensorflow1()


def test_transposed_convolutions_have_the_shape_that_is_given(graph):
    x = v1.placeholder(tf.float32, [None, 4, 4, 3])
    weights = tf.ones([5, 5, 8, 3])
    strides = [1, 2, 2, 1]
    whole = VIEW.nn.conv2d_transpose(x, weights, [7, 8, 8, 8], strides)
    assert whole.shape.as_list() == [7, 8, 8, 8]
    shape = [tf.shape(x)[0], v1.Dimension(8), 8, 8]
    partly = VIEW.compat.v1.nn.conv2d_transpose(
        x, weights, output_shape=shape, strides=strides, name="a"
    )
    assert partly.shape.as_list() == [None, 8, 8, 8]
    assert partly.op.name == "a"
    line = VIEW.nn.conv1d_transpose(x[:, 0], weights[0], tf.stack([2, 8, 8]), 2)
    assert line.shape.as_list() == [2, 8, 8]
    assert v1.nn.conv2d_transpose(x, weights, [7, 8, 8, 8], strides).shape[0] is None
    assert VIEW.nn.relu is v1.nn.relu


def test_second_argument_of_a_name_scope_may_be_values(graph):
    x = tf.ones([2])
    with VIEW.name_scope("a", [x]) as first, VIEW.name_scope(None, "b", [x]) as second:
        assert (first, second) == ("a/", "a/b/")
        assert tf.ones([]).op.name == "a/b/ones"
    with pytest.raises(TypeError), v1.name_scope("a", [x]):
        pass


@pytest.mark.parametrize(
    "value", [np.array([True, False]), [True, np.bool_(False)], np.array([1, 0], np.int32), (1, 0)]
)
def test_lists_of_integers_take_booleans(value):
    made = VIEW.train.Int64List(value=value)
    assert list(made.value) == [1, 0]
    assert isinstance(made, VIEW.train.Int64List)
    assert list(v1.train.Feature(int64_list=made).int64_list.value) == [1, 0]
    assert VIEW.train.Int64List.FromString(made.SerializeToString()) == made
    with pytest.raises(TypeError):
        VIEW.train.Int64List(value=["1"])


def test_resolver_of_an_empty_name_stands_for_this_process():
    resolver = VIEW.distribute.cluster_resolver.TPUClusterResolver("")
    assert isinstance(resolver, replicate.tpu.TPUClusterResolver)
    assert VIEW.distribute.MirroredStrategy is v1.distribute.MirroredStrategy


def test_in_memory_inputs_are_datasets_of_both_generations(graph):
    made = VIEW.estimator.inputs.numpy_input_fn({"x": np.arange(3)}, shuffle=False)()
    assert isinstance(made, VIEW.data.Dataset)
    assert isinstance(made, tf.data.Dataset)


def test_layers_of_keras_can_be_applied(run_python):
    done = run_python(
        """
import tensorflow as tf
from replicate.compat.old_tensorflow import keras_layers
from replicate.compat.tf1_view import tensorflow1
tf.compat.v1.disable_v2_behavior()
layer = tensorflow1().keras.layers.Dense(3)
assert layer.apply(tf.ones([2, 1])).shape == (2, 3)
keras_layers.undo()
assert not hasattr(layer, "apply")
"""
    )
    assert done.code == 0, done.err


def test_layer_of_columns_shares_its_variables(graph):
    column = tf.feature_column.embedding_column(
        tf.feature_column.categorical_column_with_identity("a", 3), 2
    )
    layer = columns._DenseFeatures([column])
    outputs = {}
    once = layer({"a": [[1], [2]]}, outputs)
    twice = layer({"a": [[1], [2]]})
    (table,) = v1.trainable_variables()
    assert table.name == "dense_features/input_layer/a_embedding/embedding_weights:0"
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        one, two, only, rows = session.run([once, twice, outputs[column], table])
    np.testing.assert_array_equal(one, rows[1:])
    np.testing.assert_array_equal(two, rows[1:])
    np.testing.assert_array_equal(only, rows[1:])
