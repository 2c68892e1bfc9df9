"""Heads in training: train ops, what one task's head returns, and what K-FAC is told."""

import pytest
import tensorflow as tf

from replicate import BinaryClassHead, MultiClassHead, RegressionHead
from replicate.canned.heads.train_ops import make_train_op
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.model_fn import replicate_model_fn
from replicate.spec import ModeKeys

v1 = tf.compat.v1
SGD = v1.train.GradientDescentOptimizer(0.5)


def train_op(optimizer=None, train_op_fn=None, variables=None, update_ops=None, loss=None):
    loss = tf.constant(0.0) if loss is None else loss
    return make_train_op(loss, optimizer, variables, train_op_fn, update_ops, "Head")


@pytest.fixture
def model(graph):
    step = v1.train.create_global_step()
    first, second = (v1.get_variable(name, initializer=1.0) for name in "ab")
    return step, first, second, first * second


def run(operation, fetches):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(operation)
        return session.run(fetches)


def test_optimizer_trains_the_given_variables_only(model):
    step, first, second, loss = model
    made = train_op(v1.train.GradientDescentOptimizer(0.5), variables=(second,), loss=loss)
    assert made.name.startswith("training/")
    assert run(made, [step, first, second]) == [1, 1.0, 0.5]


def test_minimize_without_var_list_is_enough_for_all_variables(model):
    step, first, second, loss = model

    class Older(v1.train.GradientDescentOptimizer):
        def minimize(self, loss, global_step):
            return super().minimize(loss, global_step)

    made = train_op(Older(0.5), variables=[second, first], loss=loss)
    assert run(made, [step, first, second]) == [1, 0.5, 0.5]


def test_update_operations_run_in_each_step(model):
    add = v1.assign_add(model[1], 2.0)
    assert train_op(train_op_fn=lambda loss: add) is add
    given, collected = v1.assign(model[1], 5.0), v1.assign(model[2], 7.0)
    for _ in range(2):
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, collected)
    made = train_op(train_op_fn=lambda loss: model[0].assign_add(1), update_ops=[given])
    assert run(made, list(model[:3])) == [1, 5.0, 7.0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, r"Cannot train Head: exactly one .* got neither"),
        ({"optimizer": SGD, "train_op_fn": tf.identity}, "got both"),
        ({"optimizer": "Adam"}, r"must be a tf\.compat\.v1\.train\.Optimizer, got 'Adam'"),
        ({"optimizer": SGD, "variables": {1}}, "trainable_variables must be a list or tuple, got"),
        ({"optimizer": SGD, "update_ops": {1}}, "Head: update_ops must be a list or tuple, got"),
    ],
)
def test_wrong_arguments_are_refused(graph, arguments, text):
    with pytest.raises(ValueError, match=text):
        train_op(**arguments)


@pytest.mark.parametrize("towers", [1, 2])
def test_several_towers_leave_the_summary_of_the_loss_to_the_estimator(graph, towers):
    def model_fn(features, labels, mode):
        logits = features * v1.get_variable("w", initializer=1.0)
        optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
        head = RegressionHead(loss_reduction=tf.losses.Reduction.SUM)
        return head.create_estimator_spec(features, mode, logits, labels, optimizer)

    devices = [f"/cpu:{tower}" for tower in range(towers)]
    model = replicate_model_fn(model_fn, v1.losses.Reduction.SUM, devices=devices)
    v1.train.create_global_step()
    model(tf.ones([4, 1]), tf.ones([4, 1]), ModeKeys.TRAIN)
    written = {each.op.name for each in v1.get_collection(v1.GraphKeys.SUMMARIES)}
    assert written == {"average_loss"} | ({"loss"} if towers == 1 else set())


def test_variables_of_an_optimizer_have_the_same_name_in_any_scope(model):
    with v1.name_scope("head"):
        train_op(train_op_fn=tf.identity)
        train_op(v1.train.AdamOptimizer(), loss=model[3])
    names = {variable.op.name for variable in v1.global_variables()}
    assert {"training/beta1_power", "a/Adam"} < names


def test_average_loss_divides_by_the_weights():
    head = RegressionHead(weight_column="w", loss_reduction="sum")
    assert float(head.average_loss([0, 0], [[1.0], [2.0]], {"w": [1, 3]})) == (1 + 12) / 4


def test_metrics_of_another_head_are_refused():
    head, other = BinaryClassHead(), MultiClassHead(3)
    with pytest.raises(ValueError, match=r"of BinaryClassHead: \['precision'.*are missing among"):
        head.update_metrics(other.metrics(), {}, [[1.0]], [1])
    losses = [tf.constant(1.0)]
    with pytest.raises(ValueError, match=r"\['regularization_loss'\] are missing"):
        head.update_metrics(head.metrics(), {}, [[1.0]], [1], regularization_losses=losses)
