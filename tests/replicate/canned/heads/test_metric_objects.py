import pytest
import tensorflow as tf

from replicate import EstimatorSpec, ModeKeys
from replicate.canned.heads.measures import area, mean
from replicate.canned.heads.metric_objects import Metric

v1 = tf.compat.v1


def test_batches_add_up_eagerly():
    metric = Metric("mean", mean())
    assert metric.result() == 0
    assert metric.update_state([1.0, 2.0]) is None
    metric.update_state([7.0], sample_weight=[2])
    assert float(metric.result()) == pytest.approx((1 + 2 + 14) / 4)
    assert metric.updates == []


def test_updates_run_in_a_graph(graph):
    metric = Metric("mean", mean())
    update = metric.update_state(tf.constant([1.0, 2.0]))
    metric.update_state(tf.constant([9.0]))
    spec = EstimatorSpec(ModeKeys.EVAL, loss=tf.constant(0.0), eval_metric_ops={"m": metric})
    value, updates = spec.eval_metric_ops["m"]
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run(update)
        assert session.run(value) == 1.5
        session.run(updates)
        assert session.run(value) == (3 + 3 + 9) / 5


def test_step_that_fails_adds_nothing(graph):
    """The count of a batch of known size does not depend on the values."""
    metric = Metric("mean", mean())
    values = tf.debugging.check_numerics(v1.placeholder(tf.float32, [2]), "end of input")
    metric.update_state(values)
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="end of input"):
            session.run(metric.updates, {values.op.inputs[0]: [float("nan"), 1.0]})
        assert session.run(metric.variables) == [0, 0]


def test_variables_are_local_metric_variables(graph):
    variables = Metric("auc", area("ROC")).variables
    assert [each.op.name for each in variables] == [
        "auc/true_positives",
        "auc/false_positives",
    ]
    for key in (v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES):
        assert [each.ref() for each in v1.get_collection(key)] == [v.ref() for v in variables]
    assert v1.global_variables() == []


@pytest.mark.parametrize("name", ["auc/grün & blau", "/a", "é"])
def test_any_name_is_accepted(graph, name):
    assert Metric(name, mean()).name == name
