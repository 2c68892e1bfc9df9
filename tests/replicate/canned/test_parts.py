"""Variables of a part, and its number of logits."""

import pytest
import tensorflow as tf

from replicate.canned.parts import check_units, trainable_variables_in

v1 = tf.compat.v1


def test_variables_of_a_scope_are_those_below_it(graph):
    wanted = v1.get_variable("dnn/a", [])
    v1.get_variable("dnn_of_mine/a", [])
    v1.get_variable("dnn/steps", [], trainable=False)
    assert trainable_variables_in("dnn") == [wanted]


@pytest.mark.parametrize("units", [{"a": 1}, 2.0, True, None])
def test_units_must_be_an_int(units):
    with pytest.raises(ValueError, match="units must be an int, the logits per example, got"):
        check_units(units)
