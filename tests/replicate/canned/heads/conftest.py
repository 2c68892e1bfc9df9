"""Formulas of losses in NumPy, metrics of heads, and the comparison of towers with one device."""

import numpy as np
import pytest
import tensorflow as tf

from replicate import TowerOptimizer, replicate_model_fn

v1 = tf.compat.v1


@pytest.fixture(scope="session")
def cross_entropy():
    """Sigmoid cross entropy of labels and logits of one shape."""

    def loss(labels, logits):
        p = 1 / (1 + np.exp(-np.asarray(logits, np.float64)))
        return -(np.asarray(labels) * np.log(p) + (1 - np.asarray(labels)) * np.log(1 - p))

    return loss


@pytest.fixture(scope="session")
def evaluated():
    """Evaluates a head eagerly on batches of (labels, logits, features): metrics by their keys."""

    def evaluate(head, *batches, regularization_losses=None):
        metrics = head.metrics(regularization_losses)
        for labels, logits, features in batches:
            updated = head.update_metrics(
                metrics, features, logits, labels, regularization_losses=regularization_losses
            )
            assert updated is metrics
        return {key: float(metric.result()) for key, metric in metrics.items()}

    return evaluate


def model_fn(head):
    """A linear model with this head, and a moving average of its inputs."""

    def model(features, labels, mode):
        x, units = features["x"], head.logits_dimension
        average = v1.get_variable("average", initializer=tf.zeros(x.shape[1:]), trainable=False)
        kernel = v1.get_variable("kernel", initializer=tf.ones([x.shape[1], units]))
        return head.create_estimator_spec(
            features,
            mode,
            tf.matmul(x, kernel),
            labels,
            optimizer=TowerOptimizer(v1.train.AdagradOptimizer(0.1)),
            trainable_variables=[kernel],
            update_ops=[v1.assign_add(average, (tf.reduce_mean(x, 0) - average) / 2)],
            regularization_losses=[0.5 * tf.nn.l2_loss(kernel)],
        )

    return model


def run_steps(model, mode, features, labels):
    """Runs a model on a batch: losses of three steps, metrics, average and kernel."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        features, labels = tf.nest.map_structure(tf.constant, (features, labels))
        spec = model(features=features, labels=labels, mode=mode)
        values = {name: value for name, (value, _) in spec.eval_metric_ops.items()}
        step = spec.train_op or [update for _, update in spec.eval_metric_ops.values()]
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            losses = [session.run([spec.loss, step])[0] for _ in range(3)]
            return losses, session.run(values), session.run(v1.global_variables("average|kernel$"))


@pytest.fixture(scope="session")
def check_towers():
    """Checks that towers of a head's model give the numbers of one device, in both modes."""

    def check(head, features, labels, reduction, towers):
        one = model_fn(head)
        devices = [f"/cpu:{index}" for index in range(towers)]
        several = replicate_model_fn(one, reduction, devices, uneven="weighted")
        for mode in ("train", "eval"):
            losses, metrics, variables = run_steps(several, mode, features, labels)
            expected = run_steps(one, mode, features, labels)
            np.testing.assert_allclose(losses, expected[0], rtol=2e-6)
            for got, wanted in zip(variables, expected[2], strict=True):
                np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-7)
            assert metrics == pytest.approx(expected[1], rel=2e-6)
            assert bool(metrics) == (mode == "eval")

    return check
