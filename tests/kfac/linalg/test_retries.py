import numpy as np
import tensorflow as tf

from kfac.linalg import damped_matrix

v1 = tf.compat.v1


def inverse(damping):
    """Returns an inverse of a placeholder, and the placeholder."""
    matrix = v1.placeholder(tf.float32, [None, None])
    return damped_matrix.damped_inverse(matrix, tf.constant(damping), tf.identity(matrix)), matrix


def test_matrices_of_all_sizes_and_graphs_share_one_function(evaluate):
    names, retried = set(), []
    for scope in ("/cpu:1", "/cpu:2"):
        with tf.Graph().as_default() as graph, v1.device(scope):
            found, matrix = zip(*(inverse(1e-6) for _ in range(3)), strict=True)
            names |= {op.get_attr("f").name for op in calls(graph)}
            functions = graph.as_graph_def().library.function
            assert {node.device for each in functions for node in each.node_def} == {""}
            indefinite = {
                each: np.diag([1.0, -1.5e-6] + [0.5] * n) for n, each in enumerate(matrix)
            }
            retried += evaluate(found, indefinite)
    assert len(names) == 1
    for each in retried:
        assert tuple(each.rare_paths) == (1, 0, 0)
        assert np.isfinite(each.matrix).all()
    np.testing.assert_array_equal(retried[2].matrix, retried[5].matrix)


def test_a_factor_adds_few_operations(graph):
    inverse(1.0)
    before = len(graph.get_operations())
    inverse(1.0)
    assert len(graph.get_operations()) - before < 50


def calls(graph):
    return [op for op in graph.get_operations() if op.type == "PartitionedCall"]
