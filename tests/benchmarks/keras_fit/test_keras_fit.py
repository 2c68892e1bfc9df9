import numpy as np
import pytest
import tensorflow as tf

from benchmarks.keras_fit import __main__ as benchmark

if str(getattr(tf.keras, "__version__", "2.")).startswith("2."):
    pytest.skip("tf.keras is not Keras 3 here", allow_module_level=True)

from benchmarks.curves import Curve
from benchmarks.keras_fit import race
from benchmarks.keras_fit.networks import NETWORKS
from examples.mnist import Examples

FAST = Curve([0, 10, 20], [0.0, 1.0, 2.0], [2.0, 0.09, 0.02])
SLOW = Curve([0, 10, 20], [0.0, 1.0, 2.0], [2.0, 0.5, 0.05])
EARLY = Curve([0, 10, 20], [0.0, 1.0, 2.0], [2.0, 0.02, 0.2])


def test_best_rate_reaches_the_lowest_loss_first():
    assert benchmark.best({0.1: FAST, 1.0: SLOW}, [0.1, 0.03]) == 0.1
    assert benchmark.best({0.1: FAST, 1.0: EARLY}, [0.1, 0.03]) == 1.0


@pytest.mark.parametrize("name", ["K-FAC", "SGD"])
def test_run_measures_at_the_given_steps(name):
    x = np.random.default_rng(0).normal(size=(1024, 4, 2, 1)).astype(np.float32)
    data = Examples(x, np.argmax(x.reshape(1024, 8), axis=1))
    optimizer, held_out = race.OPTIMIZERS[name][0](0.003), data if name == "SGD" else None
    curve = race.train("perceptron", optimizer, data, steps=8, every=4, held_out=held_out)
    assert curve.steps == [0, 4, 8]
    assert curve.losses[-1] < curve.losses[0]
    assert held_out is None or curve.losses[0] <= 1
    assert curve.seconds[0] == 0.0 < curve.seconds[1] < curve.seconds[2]


def test_networks_for_images():
    assert NETWORKS["vit"]((8, 8, 1)).output_shape == (None, 10)
    residual = NETWORKS["resnet"]((8, 8, 1))
    assert residual.output_shape == (None, 10)
    kernels = [w for w in residual.trainable_weights if w.name == "kernel"]
    assert sum(kernel.shape[0] != 1 for kernel in kernels) == 20
