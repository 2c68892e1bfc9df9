"""Inverses of several factors, of which large ones wait for each other."""

import pytest
import tensorflow as tf

from kfac.curvature import inverses_in_turn
from kfac.fisher_factors import Damping, FullyConnectedKroneckerFactor


@pytest.fixture
def inverted():
    """Returns a factor of [2, 2] with one inverse that it keeps."""

    def make(name):
        factor = FullyConnectedKroneckerFactor(((tf.eye(2),),), False, ("",), name=name)
        factor.register_inverse(Damping(name, lambda: {name: tf.constant(0.1)}))
        factor.instantiate_cov_variables()
        factor.instantiate_inv_variables()
        return factor

    return make


def sources(tensor):
    """Returns all operations that a Tensor waits for."""
    found, left = set(), [tensor.op]
    while left:
        operation = left.pop()
        if operation not in found:
            found.add(operation)
            left += [*(source.op for source in operation.inputs), *operation.control_inputs]
    return found


@pytest.mark.parametrize(
    ("large", "devices", "waits"),
    [(8.0, ["/cpu:0"] * 2, True), (8.1, ["/cpu:0"] * 2, False), (8.0, ["/cpu:0", "/cpu:1"], False)],
)
def test_large_inverses_on_one_device_wait_for_each_other(
    graph, inverted, monkeypatch, large, devices, waits
):
    monkeypatch.setattr(inverses_in_turn, "LARGE_INVERSE", large)
    changes = inverses_in_turn.compute_in_turn([inverted("a"), inverted("b")], devices)
    (first, _), (second, _) = changes
    assert (first.value.op in sources(second.value)) is waits
    assert second.value.op not in sources(first.value)
