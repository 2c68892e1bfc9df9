"""The functions of the MLP tutorial, called as an old program calls them."""

import pytest
import tensorflow as tf

import kfac
from examples import mlp_tutorial, mnist

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def small_data(monkeypatch, noise):
    """Sixteen images of 8x8 and batches of four; the folder and the kind that were asked for."""
    asked = []

    def training_examples(data_dir=None, use_fake_data=False, seed=0):
        asked.append((data_dir, use_fake_data))
        return noise(16)

    monkeypatch.setattr(mnist, "training_examples", training_examples)
    monkeypatch.setattr(mlp_tutorial, "BATCH", 4)
    monkeypatch.setattr(mlp_tutorial, "UNITS", (6,))
    return asked


def test_layers_are_those_of_the_tutorial_and_registered(graph):
    before, after, (weights, bias) = mlp_tutorial.fc_layer(
        layer_id=3, inputs=tf.zeros([2, 5]), output_size=7
    )
    assert (after.op.type, after.op.inputs[0]) == ("Tanh", before)
    assert (weights.op.name, bias.op.name) == ("fc_3/weights", "fc_3/bias")
    layers = kfac.LayerCollection()
    loss, accuracy = mlp_tutorial.build_model(tf.zeros([2, 5]), tf.zeros([2], tf.int64), 4, layers)
    assert loss.shape.rank == accuracy.shape.rank == 0
    registered = [v for v in v1.trainable_variables() if v in layers.registered_variables]
    shapes = [[5, 7], [7], [5, 6], [6], [6, 4], [4]]
    assert [v.shape.as_list() for v in v1.trainable_variables()] == shapes
    assert registered == v1.trainable_variables()[2:]


def test_training(small_data):
    assert 0 <= mlp_tutorial.train_mnist("D", 2, True) <= 1
    assert small_data == [("D", True)]


@pytest.mark.broad
def test_training_on_towers_and_by_an_estimator(small_data, tmp_path):
    assert 0 <= mlp_tutorial.train_mnist_multitower("D", 2, 2) <= 1
    assert 0 <= mlp_tutorial.train_mnist_estimator("D", 2, model_dir=str(tmp_path)) <= 1
    assert small_data == [("D", False), ("D", False)]
    assert tf.train.latest_checkpoint(tmp_path).endswith("-8")


def test_settings_are_those_of_the_tutorial(graph):
    params = mlp_tutorial.optimizer_params()
    step = v1.train.get_or_create_global_step()
    rate = params["learning_rate"]()
    with v1.Session() as session:
        session.run(step.initializer)
        assert session.run(rate) == pytest.approx(2e-5)
        session.run(step.assign(20_000))
        assert session.run(rate) == pytest.approx(5e-6)
    assert (params["momentum"], params["damping"], params["norm_constraint"]) == (0.99, 1e-4, None)
