import tensorflow as tf

from replicate import TowerOptimizer
from replicate.saved.optional_state import allow_missing_state, optional_states

v1 = tf.compat.v1


def test_states_are_those_of_the_finished_graph(graph):
    weight = v1.get_variable("w", initializer=[1.0])
    adam, descent = v1.train.AdamOptimizer(), v1.train.GradientDescentOptimizer(0.1)
    for optimizer in (adam, descent, adam, TowerOptimizer(adam)):
        allow_missing_state(optimizer)
    assert optional_states() == []
    for optimizer in (adam, descent):
        optimizer.minimize(tf.reduce_sum(weight), var_list=[weight])
    (state,) = optional_states()
    assert state.owner == "Adam"
    assert {each.op.name for each in state.variables} == {
        "beta1_power",
        "beta2_power",
        "w/Adam",
        "w/Adam_1",
    }
    with tf.Graph().as_default():
        assert optional_states() == []
