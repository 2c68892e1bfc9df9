"""Functions of private modules, as programs of TensorFlow 1 import them."""

import tensorflow as tf

v1 = tf.compat.v1


class Cell:
    """Has the members by which a cell of a recurrent network is known."""

    state_size = output_size = 2
    zero_state = __call__ = print


def test_moved_names_are_found_and_work(run_source, graph):
    names = run_source(
        """
from tensorflow.python.ops.control_flow_ops import *
import tensorflow as tf
from tensorflow.python.framework import graph_util, ops, tensor_shape
from tensorflow.python.ops import array_ops, control_flow_ops, resource_variable_ops, rnn_cell_impl
from tensorflow.python.ops import variable_scope
from tensorflow.python.training import distribution_strategy_context as context, training_ops
from tensorflow.python.util import nest
from tensorflow.python.util.tf_export import estimator_export
from tensorflow.python.data.util.nest import is_sequence

stacked = array_ops.stack([1, 2])
@estimator_export("estimator.Mine")
def mine():
    return control_flow_ops.cond(ops.convert_to_tensor_v2(True), lambda: 3, lambda: 4)
chosen = mine()
counted = while_loop(lambda i: i < 3, lambda i: i + 1, [0])
shapes = [tensor_shape.scalar(), tensor_shape.vector(2), tensor_shape.matrix(None, 3)]
variable = variable_scope.variable(1.0, trainable=False, name="v")
back = resource_variable_ops._from_proto_fn(resource_variable_ops._to_proto_fn(variable))
"""
    )
    assert isinstance(names.stacked, names.ops.Tensor)
    with v1.Session() as session:
        assert session.run([names.chosen, names.counted]) == [3, 3]
    assert [shape.as_list() for shape in names.shapes] == [[], [2], [None, 3]]
    assert names.nest.is_sequence([1])
    assert not names.is_sequence(1)
    assert names.back.name == "v:0"
    assert names.rnn_cell_impl._like_rnncell(Cell())
    assert not names.rnn_cell_impl._like_rnncell(names.mine)
    assert names.context.get_tower_context() is tf.distribute.get_replica_context()
    assert names.graph_util.extract_sub_graph is v1.graph_util.extract_sub_graph
    assert callable(names.training_ops.apply_adam)


def test_what_a_program_sets_is_set_in_the_module_itself(run_source):
    names = run_source(
        """
from tensorflow.python.ops import array_ops, control_flow_ops
control_flow_ops.a_name_of_mine = 3
"""
    )
    try:
        assert vars(names.control_flow_ops._real())["a_name_of_mine"] == 3
        assert {"stack", "reshape", "concat"} <= set(dir(names.array_ops))
    finally:
        del names.control_flow_ops._real().a_name_of_mine
