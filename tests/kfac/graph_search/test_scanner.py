"""The scanner, and the graph of a tower as it sees it."""

import pytest
import tensorflow as tf

from kfac import graph_search
from kfac.graph_search.layer_uses import Batch
from kfac.graph_search.scanner import plan_tower
from kfac.graph_search.tower import Tower
from kfac.registration.dense_layers import register_fully_connected, register_generic

v1 = tf.compat.v1


@pytest.fixture
def layer(graph):
    """Inputs, weight, bias and outputs of a dense layer."""
    x, w, b = tf.ones([4, 3]), v1.get_variable("w", [3, 2]), v1.get_variable("b", [2])
    return x, w, b, tf.matmul(x, w) + b


def plan(output, *variables, registered=(), linked=(), batch=Batch(4)):  # noqa: B008
    return plan_tower(Tower([output], variables), registered, dict.fromkeys(linked), batch)


def text_of(found, variable):
    (text,) = [d.text for d in found.decisions if d.params is variable]
    return text


def test_plans_and_decisions(layer):
    _, w, b, y = layer
    gain, unused = v1.get_variable("gain", [2, 2]), v1.get_variable("unused", [2])
    found = plan(y @ tf.exp(gain), unused, gain, b, w)
    assert list(found.plans) == [gain, (w, b)]
    assert found.plans[gain].function is register_generic
    assert found.plans[gain].settings == {"batch_size": 4}
    assert found.plans[w, b].function is register_fully_connected
    assert [(d.params, d.is_expected) for d in found.decisions] == [
        ((w, b), True),
        (gain, False),
        (unused, True),
    ]
    assert text_of(found, gain) == "generic, because it goes into 'Exp', and Exp is no known layer"
    assert "no registered loss depends on it" in text_of(found, unused)


def test_what_was_registered_is_left_alone(layer):
    _, w, b, y = layer
    assert plan(y, w, b, registered=[w, b]).plans == {}
    assert list(plan(y, w, b, registered=[b]).plans) == [w]
    found = plan(y, w, b, registered=[w])
    assert list(found.plans) == [b]
    assert "is added in 'add'" in text_of(found, b)


def test_linked_group_decides_what_belongs_together(layer):
    """A parameter that is linked alone and is no layer is generic."""
    _, w, b, y = layer
    for alone in (w, b):
        found = plan(y, w, b, linked=[frozenset([alone])])
        assert list(found.plans) == [b, w]
        assert found.plans[w].function is register_fully_connected
        assert found.plans[b].function is register_generic
    reason = "it is linked alone, and is added in 'add', but is the bias of no known layer"
    assert text_of(found, b) == f"generic, because {reason}"
    assert [d.params for d in found.decisions if not d.is_expected] == [b]


def test_linked_group_that_is_no_layer(layer):
    _, w, b, y = layer
    other = v1.get_variable("other", [2])
    output = y + tf.exp(other)
    for variable in (w, b):
        linked = [frozenset([variable, other])]
        with pytest.raises(ValueError, match=r"linked group \(\w+, \w+\) was not matched"):
            plan(output, w, b, other, linked=linked)
        plan(output, w, b, other, linked=linked, registered=[other])


def test_parameter_of_two_layers(layer):
    _, w, b, y = layer
    other = v1.get_variable("other", [2])
    z = tf.matmul(tf.concat([y, y[:, :1]], 1), w) + other
    with pytest.raises(graph_search.AmbiguousRegistrationError, match=r"\(w, b\) and \(w, other\)"):
        plan(z, w, b, other)
    found = plan(z, w, b, other, linked=[frozenset([w])])
    assert found.plans[w].num_uses == 2
    assert list(found.plans) == [b, other, w]


def test_weight_with_another_use_that_is_no_layer(layer):
    _, w, b, y = layer
    found = plan(y + tf.reduce_sum(tf.exp(w)), w, b)
    assert list(found.plans) == [b, w]
    assert "Exp is no known layer" in text_of(found, w)
    assert "is added in 'add'" in text_of(found, b)


def test_bias_with_another_use(layer):
    _, w, b, y = layer
    found = plan(tf.tanh(y) + b, w, b)
    reason = "is part of the layer in MatMul 'MatMul' with a bias, and b is used elsewhere, too"
    assert text_of(found, w) == f"generic, because it {reason}"
    assert text_of(found, b) == f"generic, because it belongs to w, which {reason}"


def test_layer_that_cannot_be_registered_as_what_it_is(graph):
    x, w = tf.ones([4, 5, 3]), v1.get_variable("w", [2, 3, 3])
    y = tf.nn.conv1d(tf.nn.conv1d(x, w, 1, "SAME"), w, 1, "SAME")
    found = plan(y, w)
    assert found.plans[w].function is register_generic
    assert "is the filter of 2 convolutions" in text_of(found, w)


def test_generic_needs_a_number_of_examples(layer):
    _, w, _, y = layer
    with pytest.raises(graph_search.AmbiguousRegistrationError, match=r"w is to be.*Pass batch_s"):
        plan(tf.exp(y) @ tf.exp(w)[:2], w, batch=Batch())


def test_rows(graph, session):
    some, many = v1.placeholder(tf.float32, [None, 2]), tf.ones([6, 2])
    assert Tower([many, many], []).rows() == 6
    assert Tower([some, many], []).rows() == 6
    assert Tower([many, tf.ones([3])], []).rows() is None
    assert Tower([many, tf.constant(1.0)], []).rows() is None
    assert Tower([many], []).is_by_example(tf.ones([12, 2]))
    assert not Tower([many], []).is_by_example(tf.ones([4, 2]))
    assert Tower([some], []).is_by_example(tf.ones([4, 2]))
    rows = Tower([some], []).rows()
    assert session.run(rows, {some: [[1.0, 2.0]] * 4}) == 4


def test_what_is_made_from_variables_only(graph):
    w, b = v1.get_variable("w", [3, 3]), v1.get_variable("b", [3], use_resource=False)
    x, ids = v1.placeholder(tf.float32, [None, 3]), v1.placeholder(tf.int32, [None])
    of_data = [x, tf.exp(x @ w), tf.ones([3, 3]) @ w, tf.gather(w, ids), tf.fill([8, 3], 0.0)]
    of_variables = [w * 2.0, tf.exp(b), tf.reduce_sum(w, [0])]
    tower = Tower([*of_data, *of_variables], [w, b])
    assert not any(map(tower.is_of_variables, of_data))
    assert all(map(tower.is_of_variables, of_variables))


@pytest.mark.parametrize("use_resource", [True, False])
def test_batch_that_a_variable_holds_is_data(graph, use_resource):
    def variable(name, shape, trainable=False):
        return v1.get_variable(name, shape, trainable=trainable, use_resource=use_resource)

    batch, of_all_towers = variable("batch", [4, 3]), variable("of_all_towers", [8, 3])
    others = variable("w", [4, 3], True), variable("average", [4]), variable("kept", [3, 3])
    both = [tf.exp(each) for each in (batch, of_all_towers)]
    none = [tf.exp(each) for each in others]
    outputs = [tf.ones([4, 2]), *(tf.fill([4, 1], tf.reduce_sum(each)) for each in (*both, *none))]
    tower = Tower(outputs, [])
    assert [tower.is_of_variables(each) for each in both] == [False] * 2
    assert [tower.is_of_variables(each) for each in none] == [True] * 3
    asked_for = Tower(outputs, [batch])
    assert asked_for.is_of_variables(both[0])
