"""Initial values, as the chief sends them and another worker gets them."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.all_reduce.initial_values import InitialValues

v1 = tf.compat.v1


@pytest.mark.parametrize("is_chief", [True, False])
def test_no_value_leaves_the_session(graph, is_chief):
    """A chief that fetched them would need the memory of its variables twice."""

    class Group:
        def broadcast(self, tensor):
            return tensor if self.is_chief else tensor + 1

    Group.is_chief = is_chief
    weights = v1.get_variable("weights", initializer=np.arange(6.0).reshape(2, 3))
    bias = v1.get_variable("bias", [0], initializer=v1.zeros_initializer())
    values = InitialValues(Group())
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(values._copy) == [None, None]
        expected = np.arange(6.0).reshape(2, 3) + (not is_chief)
        np.testing.assert_array_equal(session.run(weights), expected)
        assert session.run(bias).shape == (0,)
