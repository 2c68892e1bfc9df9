"""Stages of an update: each alone, and composed in order."""

from typing import get_args

import numpy as np
import pytest
import tensorflow as tf

from model_deploy import GradientReduction
from replicate.gradients.acceptance import FailOnNonFinite
from replicate.gradients.accumulation import GradientAccumulation
from replicate.gradients.loss_scale import DynamicLossScale, LossScaling
from replicate.gradients.stages import (
    GradientApplication,
    GradientClipping,
    GradientStages,
    GradientSum,
)
from replicate.tower.build import REDUCED_GRADIENTS, TowerGradients
from replicate.tower.shares import GradientShare

v1 = tf.compat.v1


def descent():
    return v1.train.GradientDescentOptimizer(1.0)


@pytest.fixture
def variables(graph):
    return [v1.get_variable(name, initializer=[0.0, 0.0]) for name in "vw"]


def tower_gradients(variables, values):
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
def test_divides_all_sums_by_the_loss_scale_and_multiplies_by_the_share(variables, reduction):
    scaling = LossScaling(DynamicLossScale(initial=4.0))
    towers = [tower_gradients(variables, [2.0, 4.0]), tower_gradients(variables, [6.0, 4.0])]
    found = evaluate(GradientSum(None, scaling, reduction, GradientShare(0.25)).sum(towers))
    np.testing.assert_array_equal([found["v"], found["w"]], 0.25 * np.array([[2.0, 0.5]] * 2))


def test_stages_run_in_order(graph):
    """Two towers, two steps, one update: the mean over steps of the sum over towers, clipped.

    The mean of the first update is clipped; that of the second is small, but its parts are large.
    """
    weight = v1.get_variable("w", initializer=5.0)
    batch = v1.placeholder(tf.float32, [2])
    ends = v1.get_variable("ends", initializer=0)
    pairs = [[(batch[index], weight)] for index in range(2)]
    end = tf.group(batch, v1.assign_add(ends, 1))
    towers = [TowerGradients(each, [], end, v1.get_variable_scope(), "") for each in pairs]
    stages = GradientStages(
        GradientSum(None, None),
        FailOnNonFinite(),
        GradientAccumulation(2, average=True),
        GradientClipping(4.0),
        GradientApplication(descent(), None, None),
    )
    train_op = stages.build(towers)
    [(reduced, _)] = v1.get_collection(REDUCED_GRADIENTS)
    history = []
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for values in ([3.0, 4.0], [3.0, 4.0], [4.0, 5.0], [-6.0, -7.0]):
            total, _ = session.run([reduced, train_op], {batch: values})
            history.append((total, *session.run([weight, ends])))
    assert history == [(7.0, 5.0, 1), (7.0, 1.0, 2), (9.0, 1.0, 3), (-13.0, 3.0, 4)]
