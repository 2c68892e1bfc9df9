"""Arguments of wrong types: a TypeError with the argument, what it is, and what is accepted."""

import pytest
import tensorflow as tf

import model_deploy
from model_deploy import DeploymentConfig

v1 = tf.compat.v1

CONFIG = DeploymentConfig(clone_on_cpu=True)
SGD = v1.train.GradientDescentOptimizer(0.1)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("create_clones", (3, int), "config is 3, of type int. Accepted is a model_deploy.Depl"),
        ("create_clones", (CONFIG, 3), "model_fn is 3, of type int. Accepted is a function"),
        ("create_clones", (CONFIG, int, 3), "args is 3, of type int. Accepted is a list, or None"),
        ("create_clones", (CONFIG, int, "ab"), "args is 'ab', of type str"),
        ("create_clones", (CONFIG, int, (), 3), "kwargs is 3, of type int. Accepted is a dict"),
        ("deploy", (None, int), "config is None, of type NoneType"),
        ("deploy", (CONFIG, 3), "model_fn is 3"),
        ("deploy", (CONFIG, int, (), {}, 0.1), "optimizer is 0.1, of type float"),
        ("optimize_clones", (3, SGD), "clones is 3"),
        ("optimize_clones", ([3], SGD), "an entry of clones is 3"),
        ("optimize_clones", ([], int), "optimizer is <class 'int'>, of type type"),
        ("optimize_clones", ([], type(SGD)), "optimizer is <class"),
        ("optimize_clones", ([], SGD, 0.1), "regularization_losses is 0.1, of type float"),
        ("sum_gradients", (3,), "gradients is 3"),
        ("sum_over_copies", (3,), "copies is 3"),
        ("sum_over_copies", ([3],), "an entry of copies is 3"),
        ("reduce_over_copies", (3, []), "copies is 3"),
        ("reduce_over_copies", ([], 3), "devices is 3"),
        ("cross_in_packs", (3, 4), "gradients_and_variables is 3"),
        ("device_plan", (3,), "devices is 3"),
        ("local_devices", (3,), "kind is 3"),
        ("VariablePlacer", (3,), "parameters is 3"),
        ("DeploymentConfig", ("a",), "num_clones is 'a', of type str. Accepted is an int from 1"),
        ("DeploymentConfig", (1, True, None), "replica_id is None"),
        ("DeploymentConfig", (1.5,), "num_clones is 1.5"),
    ],
)
def test_wrong_types_are_told(graph, name, arguments, message):
    with pytest.raises(TypeError, match=r"^Cannot ") as caught:
        getattr(model_deploy, name)(*arguments)
    assert message in str(caught.value)


@pytest.mark.usefixtures("graph")
def test_a_tensor_is_no_list():
    with pytest.raises(TypeError, match=r"args is <tf\.Tensor"):
        model_deploy.create_clones(CONFIG, int, tf.zeros([1]))
    with pytest.raises(TypeError, match=r"regularization_losses is <tf\.Variable"):
        model_deploy.optimize_clones([], SGD, tf.Variable(1.0))
