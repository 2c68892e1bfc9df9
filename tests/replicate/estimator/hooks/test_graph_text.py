from unittest import mock

import pytest
import tensorflow as tf

from replicate.estimator.hooks import graph_text as module
from replicate.estimator.hooks.graph_text import graph_text, is_text_of

v1 = tf.compat.v1


@pytest.fixture
def graph_def():
    """Numbers, strings, control flow and functions."""
    with tf.Graph().as_default() as graph:
        numbers = tf.constant([1 / 3, 1e-30, float("inf"), float("nan"), -0.0])
        texts = tf.strings.reduce_join([b'"\xff\n', "é".encode()], separator="\t'")
        squares = tf.map_fn(lambda x: x * x, numbers)
        tf.stack([tf.strings.as_string(squares[0]), texts])
    return graph.as_graph_def(add_shapes=True)


@pytest.mark.parametrize("can_parse_str", [True, False])
def test_text_parses_to_the_same_graph(graph_def, can_parse_str):
    with mock.patch.object(module, "_can_parse_str", return_value=can_parse_str):
        assert is_text_of(graph_text(graph_def), graph_def)


def test_str_is_used_here():
    assert module._can_parse_str()


@pytest.mark.parametrize("before", ["goo.gle/debug ", 'node { name: "other" }'])
def test_text_with_more_in_it_is_not_the_text(graph_def, before):
    assert not is_text_of(before + str(graph_def), graph_def)
