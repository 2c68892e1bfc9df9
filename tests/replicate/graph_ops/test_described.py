"""Operations made many at a time: they are as if they had been made one by one."""

import numpy as np
import tensorflow as tf

from replicate.graph_ops.described import DescribedOperations

v1 = tf.compat.v1


def test_inputs_come_from_the_graph_and_from_each_other(graph):
    first, second = tf.constant([1.0, 2.0]), tf.constant([10.0, 20.0])
    operations = DescribedOperations()
    total = operations.add("AddV2", "total", [first, second], T=tf.float32)
    doubled = operations.add("AddV2", "doubled", [total, total], T=tf.float32)
    again = operations.add("AddV2", "again", [doubled, first], T=tf.float32)
    made = operations.make([f"{again}:0", total])
    assert made[1].type == "AddV2"
    with v1.Session() as session:
        np.testing.assert_array_equal(session.run(made[0]), [23.0, 46.0])


def test_results_are_selected_by_number(graph):
    operations = DescribedOperations()
    inputs = [tf.constant(5.0), tf.constant(value=True)]
    switch = operations.add("Switch", "switch", inputs, T=tf.float32)
    taken = operations.add("Identity", "taken", [f"{switch}:1"], T=tf.float32)
    with v1.Session() as session:
        assert session.run(operations.make([f"{taken}:0"])) == [5.0]


def test_scopes_apply(graph):
    before = tf.constant(0.0, name="before")
    operations = DescribedOperations()
    first = operations.add("NoOp", "first", device="/device:CPU:1")
    second = operations.add("Identity", "second", [before], after=first, T=tf.float32)
    scopes = v1.name_scope("scope"), v1.device("/job:worker/device:CPU:0")
    with scopes[0], scopes[1], v1.control_dependencies([before]):
        made_first, made_second = operations.make([first, second])
    assert (made_first.name, made_second.name) == ("scope/first", "scope/second")
    assert made_first.device == "/job:worker/device:CPU:1"
    assert made_second.device == "/job:worker/device:CPU:0"
    assert made_first.control_inputs == [before.op]
    assert made_first in made_second.control_inputs


def test_taken_names_get_a_number(graph):
    tf.no_op(name="scope/same")
    for expected in ("scope/same_1", "scope/same_2"):
        operations = DescribedOperations()
        operations.add("NoOp", "same")
        with v1.name_scope("scope/"):
            (made,) = operations.make(["same"])
        assert made.name == expected
    assert tf.no_op(name="scope/same").name == "scope/same_3"


def test_attributes_of_each_kind(graph):
    operations = DescribedOperations()
    shape = tf.TensorShape([2, None])
    operations.add("VarHandleOp", "h", dtype=tf.float32, shape=shape, shared_name="state")
    operations.add("Pack", "pack", [tf.constant(1), tf.constant(2)], T=tf.int32, N=2)
    handle, packed = operations.make(["h", "pack:0"])
    assert handle.get_attr("dtype") == tf.float32
    assert tf.TensorShape(handle.get_attr("shape")).as_list() == [2, None]
    assert handle.get_attr("shared_name") == b"state"
    assert packed.shape == [2]
