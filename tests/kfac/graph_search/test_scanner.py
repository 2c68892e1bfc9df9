import pytest
import tensorflow as tf

from kfac import graph_search
from kfac.graph_search.layer_uses import Batch
from kfac.graph_search.plans import DensePlan, GenericPlan
from kfac.graph_search.scanner import plan_tower
from kfac.graph_search.tower import Tower

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
    assert found.plans[gain] == GenericPlan(batch_size=4)
    assert isinstance(found.plans[w, b], DensePlan)
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
    _, w, b, y = layer
    linked = [frozenset([w])]
    found = plan(y, w, b, linked=linked)
    assert list(found.plans) == [b, w]
    assert isinstance(found.plans[w], DensePlan)
    assert isinstance(found.plans[b], GenericPlan)


@pytest.mark.parametrize("names", [("w", "other"), ("b", "other")])
def test_linked_group_that_is_no_layer(layer, names):
    _, w, b, y = layer
    other = v1.get_variable("other", [2])
    linked = [frozenset(v for v in (w, b, other) if v.op.name in names)]
    output = y + tf.exp(other)
    with pytest.raises(ValueError, match=r"linked group \(\w+, \w+\) was not matched"):
        plan(output, w, b, other, linked=linked)
    plan(output, w, b, other, linked=linked, registered=[other])


def test_parameter_that_is_linked_alone_and_is_no_layer_is_generic(layer):
    _, w, b, y = layer
    found = plan(y, w, b, linked=[frozenset([b])])
    assert isinstance(found.plans[w], DensePlan)
    assert isinstance(found.plans[b], GenericPlan)
    reason = "it is linked alone, and is added in 'add', but is the bias of no known layer"
    assert text_of(found, b) == f"generic, because {reason}"
    assert [d.params for d in found.decisions if not d.is_expected] == [b]


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
    assert isinstance(found.plans[w], GenericPlan)
    assert "is the filter of 2 convolutions" in text_of(found, w)


def test_generic_needs_a_number_of_examples(layer):
    _, w, _, y = layer
    with pytest.raises(graph_search.AmbiguousRegistrationError, match=r"w is to be.*Pass batch_s"):
        plan(tf.exp(y) @ tf.exp(w)[:2], w, batch=Batch())
