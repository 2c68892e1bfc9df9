"""optimize_clones: the loss and the gradients of all clones together."""

import numpy as np
import pytest
import tensorflow as tf

from model_deploy import DeploymentConfig, create_clones, optimize_clones

v1 = tf.compat.v1


def sgd():
    return v1.train.GradientDescentOptimizer(1.0)


def l2(weights):
    return 0.05 * tf.reduce_sum(tf.square(weights - 3.0))


def shards_of(data, count):
    """The batch in equal parts: an iterator over (inputs, labels)."""
    return iter(zip(*(np.split(part, count) for part in data), strict=True))


def build(model, data, num_clones, clone_on_cpu=True, regularizer=None, **options):
    """Builds clones, each on its part of the batch, and their loss and gradients."""
    shards = shards_of(data, num_clones)
    config = DeploymentConfig(num_clones=num_clones, clone_on_cpu=clone_on_cpu)
    kwargs = {} if regularizer is None else {"regularizer": regularizer}
    clones = create_clones(config, lambda: model(*map(tf.constant, next(shards)), **kwargs))
    return optimize_clones(clones, sgd(), **options)


def gradients_by_name(grads_and_vars):
    return {variable.op.name: gradient for gradient, variable in grads_and_vars}


def scalar_tags():
    summaries = v1.get_collection(v1.GraphKeys.SUMMARIES)
    return [tf.get_static_value(summary.op.inputs[0]).item().decode() for summary in summaries]


def test_one_clone_has_its_gradients_on_its_device_and_an_unscaled_loss(graph, logistic, data):
    _, grads_and_vars = build(logistic, data, 1, clone_on_cpu=False, regularizer=l2)
    for gradient, variable in grads_and_vars:
        assert gradient.device == "/device:GPU:0"
        assert variable.device == "/device:CPU:0"
    assert "scaled_clone_loss" not in [each.name for each in graph.get_operations()]
    assert scalar_tags() == ["Losses/clone_loss", "Losses/regularization_loss"]


def test_sums_over_clones_are_named_and_follow_the_device_scope(graph, batch_norm_classifier, data):
    total_loss, grads_and_vars = build(batch_norm_classifier, data, 2, clone_on_cpu=False)
    assert total_loss.op.name == "total_loss"
    assert [variable for _, variable in grads_and_vars] == v1.trainable_variables()
    for gradient, variable in grads_and_vars:
        assert gradient.op.name == f"{variable.op.name}/sum_grads"
        assert (gradient.device, gradient.shape) == ("", variable.shape)
        assert {part.device for part in gradient.op.inputs} == {"/device:GPU:0", "/device:GPU:1"}


def test_parts_of_a_loss_are_named_and_summarized(graph, logistic, data):
    build(logistic, data, 2, clone_on_cpu=False, regularizer=l2)
    for name, device in [
        ("clone_0/clone_loss", "/device:GPU:0"),
        ("clone_1/clone_loss", "/device:GPU:1"),
        ("clone_1/scaled_clone_loss", "/device:GPU:1"),
        ("clone_0/regularization_loss", "/device:GPU:0"),
    ]:
        assert graph.get_operation_by_name(name).device == device
    assert "clone_1/regularization_loss" not in [each.name for each in graph.get_operations()]
    assert scalar_tags() == [
        "clone_0/Losses/clone_0//clone_loss",
        "clone_0/Losses/regularization_loss",
        "clone_1/Losses/clone_1//clone_loss",
    ]
    summaries = v1.get_collection(v1.GraphKeys.SUMMARIES)
    assert {summary.device for summary in summaries} == {""}


def test_regularization_counts_once(any_graph, logistic, data, evaluate):
    total_loss, grads_and_vars = build(logistic, data, 2, regularizer=l2)
    loss, gradients = evaluate([total_loss, gradients_by_name(grads_and_vars)])
    inputs, labels = data  # All weights are 0: every prediction is 1/2.
    np.testing.assert_allclose(loss, np.log(2) + 0.05 * 4 * 9.0, rtol=1e-5)
    expected = inputs.T @ (0.5 - labels) / 16 - 0.1 * 3.0
    np.testing.assert_allclose(gradients["fully_connected/weights"], expected, rtol=1e-4)


def test_regularization_that_every_clone_adds_counts_once(graph, logistic, data, evaluate):
    def model(inputs, labels):
        logistic(inputs, labels)
        v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, tf.constant(0.25))

    total_loss, _ = build(model, data, 2)
    np.testing.assert_allclose(evaluate(total_loss), np.log(2) + 0.25, rtol=1e-5)


@pytest.mark.parametrize(("losses", "added"), [([], 0.0), ([0.25, 0.5], 0.75)])
def test_given_regularization_replaces_the_collection(
    graph, logistic, data, losses, added, evaluate
):
    given = [tf.constant(loss) for loss in losses]
    total_loss, _ = build(logistic, data, 2, regularizer=l2, regularization_losses=given)
    np.testing.assert_allclose(evaluate(total_loss), np.log(2) + added, rtol=1e-5)


def test_clones_without_loss_and_variables_without_gradient_are_left_out(graph, evaluate):
    calls = []

    def model():
        calls.append(None)
        v1.get_variable("unused", shape=[3])
        weight = v1.get_variable("w", initializer=2.0)
        if len(calls) == 2:
            v1.losses.add_loss(weight * 3.0)

    config = DeploymentConfig(num_clones=2, clone_on_cpu=True)
    total_loss, [(gradient, _)] = optimize_clones(create_clones(config, model), sgd())
    assert evaluate([total_loss, gradient]) == [3.0, 1.5]


def test_error_without_a_loss_names_the_losses_collection(graph):
    clones = create_clones(DeploymentConfig(num_clones=2), lambda: None)
    with pytest.raises(ValueError, match=r"optimize 2 clones: none of them has a loss.*add_loss"):
        optimize_clones(clones, sgd())
