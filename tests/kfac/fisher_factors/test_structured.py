import pytest
import tensorflow as tf

from kfac.fisher_factors import ConvInputSUAKroneckerFactor, Damping, FullyConnectedMultiKF
from kfac.fisher_factors.structured import unsupported_error
from kfac.patches.geometry import ConvGeometry

GEOMETRY = ConvGeometry((2, 2), (1, 1), "SAME")


def damping(name):
    return Damping(name, lambda: {name: tf.constant(0.3, tf.float64)})


def test_unknown_functions_of_uncorrelated_activations(graph):
    images = tf.ones([2, 4, 4, 3], tf.float64)
    factor = ConvInputSUAKroneckerFactor(((images,),), GEOMETRY, True, ("",), name="conv/input")
    for ask in (
        factor.register_cholesky,
        factor.register_cholesky_inverse,
        factor.get_cholesky,
        factor.get_cholesky_inverse,
        lambda d: factor.get_matpower(-0.5, d),
    ):
        with pytest.raises(ValueError, match=r"factor 'conv/input': with approx='kron_sua' only"):
            ask(damping("conv/input"))


def test_unknown_functions_of_chains(graph):
    factor = FullyConnectedMultiKF(((tf.ones([5, 2]),),), 1, False, ("",), name="rnn/input")
    with pytest.raises(ValueError, match=r"Cholesky factor of factor 'rnn/input'.*'kron_indep'"):
        factor.register_cholesky(damping("rnn/input"))


def test_error_names_the_function_and_the_remedy():
    error = unsupported_error("power 0.5", "conv/input", "only powers 1 and -1", "approx='kron'")
    assert str(error) == (
        "Cannot compute the power 0.5 of factor 'conv/input': only powers 1 and -1 are known. "
        "Register the layer with approx='kron'."
    )
