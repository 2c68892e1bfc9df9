"""Both kinds of Keras, with small models and a way to train them."""

import importlib
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import kfac

IS_LEGACY = str(getattr(tf.keras, "__version__", "2.")).startswith("2.")


class Keras(NamedTuple):
    """A Keras and its K-FAC.

    Attributes:
      name: "keras" for Keras 3, "tf_keras" for the older one.
      keras: The module.
      Kfac: The class of the optimizer.
    """

    name: str
    keras: object
    Kfac: type

    def examples(self, rows, features=6, classes=3, seed=0):
        """Returns inputs and class numbers that depend on them."""
        random = np.random.RandomState(seed)
        x = random.randn(rows, features).astype(np.float32)
        return x, np.argmax(x[:, :classes], axis=1)

    def dense_model(self, sizes=(5, 3), features=6):
        """Returns dense layers with tanh between them."""
        layers = [self.keras.layers.Input((features,))]
        layers += [self.keras.layers.Dense(size, activation="tanh") for size in sizes[:-1]]
        return self.seeded(self.keras.Sequential([*layers, self.keras.layers.Dense(sizes[-1])]))

    def seeded(self, model):
        """Sets weights that do not depend on the Keras, and returns the model.

        In a graph they are for the session to set.
        """
        if not tf.executing_eagerly():
            return model
        random = np.random.RandomState(1)
        model.set_weights([np.abs(random.randn(*w.shape)) * 0.5 for w in model.get_weights()])
        return model

    def cross_entropy(self):
        """Returns the loss of logits and class numbers."""
        return self.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def fit(self, model, x, y, **options):
        """Trains, and returns the loss of each batch before its step."""
        losses = []

        class Note(self.keras.callbacks.Callback):
            def on_train_batch_begin(self, batch, logs=None):
                self.model.reset_metrics()

            def on_train_batch_end(self, batch, logs=None):
                losses.append(logs["loss"])

        callbacks = [Note(), *options.pop("callbacks", [])]
        options = {"shuffle": False, "verbose": 0, "batch_size": 16, **options}
        model.fit(x, y, callbacks=callbacks, **options)
        return np.array(losses)


def _load(name):
    """Returns a Keras, or skips the test where it is not installed."""
    if name == "keras":
        if IS_LEGACY:
            pytest.skip("tf.keras is not Keras 3 here")
        return Keras(name, importlib.import_module("keras"), kfac.keras.Kfac)
    if IS_LEGACY:
        return Keras(name, tf.keras, kfac.keras.Kfac)
    pytest.importorskip("tf_keras")
    return Keras(name, importlib.import_module("tf_keras"), kfac.keras.legacy.Kfac)


KERAS, OTHER = ("tf_keras", "keras") if IS_LEGACY else ("keras", "tf_keras")


@pytest.fixture(params=[KERAS, pytest.param(OTHER, marks=pytest.mark.broad)])
def both(request):
    """The Keras of this TensorFlow; in the broad scope tf_keras beside Keras 3, too."""
    return _load(request.param)


@pytest.fixture(params=[KERAS, pytest.param(OTHER, marks=pytest.mark.slow)])
def either(request):
    """The same, for tests of what hardly depends on the Keras."""
    return _load(request.param)


@pytest.fixture
def keras3():
    """Keras 3."""
    return _load("keras")
