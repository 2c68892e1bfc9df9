"""Sums over towers, with and without packs and a loss scale."""

from typing import get_args

import numpy as np
import pytest
import tensorflow as tf

from model_deploy import GradientReduction
from replicate.gradients.loss_scale import DynamicLossScale, LossScaling
from replicate.gradients.sum import GradientSum
from replicate.tower.build import TowerGradients
from replicate.tower.shares import GradientShare

v1 = tf.compat.v1


@pytest.fixture
def variables(graph):
    return [v1.get_variable(name, initializer=[0.0, 0.0]) for name in "vw"]


def tower(variables, values):
    """Makes a tower's gradients; a value None makes none for its variable."""
    pairs = [
        (None if value is None else tf.constant([value, 1.0]), variable)
        for value, variable in zip(values, variables, strict=True)
    ]
    scope = v1.get_variable_scope()
    return TowerGradients(pairs, [], tf.no_op(), scope, "", "/device:CPU:1")


def evaluate(pairs):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return {variable.op.name: session.run(gradient).tolist() for gradient, variable in pairs}


@pytest.mark.parametrize("reduction", get_args(GradientReduction))
@pytest.mark.parametrize("pack_bytes", [None, 1, 1000])
def test_sums_gradients_by_variable(variables, pack_bytes, reduction):
    towers = [tower(variables, [1.0, None]), tower(variables, [2.0, 5.0])]
    summed = GradientSum(pack_bytes, scaling=None, reduction=reduction).sum(towers)
    assert evaluate(summed) == {"v": [3.0, 2.0], "w": [5.0, 1.0]}


@pytest.mark.parametrize("reduction", get_args(GradientReduction))
@pytest.mark.parametrize("share", [1.0, 0.25])
def test_divides_all_sums_by_the_loss_scale_and_multiplies_by_the_share(
    variables, share, reduction
):
    scaling = LossScaling(DynamicLossScale(initial=4.0))
    towers = [tower(variables, [2.0, 4.0]), tower(variables, [6.0, 4.0])]
    found = evaluate(GradientSum(None, scaling, reduction, GradientShare(share)).sum(towers))
    np.testing.assert_array_equal([found["v"], found["w"]], share * np.array([[2.0, 0.5]] * 2))
