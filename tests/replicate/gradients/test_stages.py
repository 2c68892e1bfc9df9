"""Stages of an update: each alone, and composed in order."""

import tensorflow as tf

from replicate.gradients.acceptance import FailOnNonFinite
from replicate.gradients.accumulation import GradientAccumulation
from replicate.gradients.stages import (
    GradientApplication,
    GradientClipping,
    GradientStages,
    GradientSum,
)
from replicate.tower.build import REDUCED_GRADIENTS, TowerGradients

v1 = tf.compat.v1


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
        GradientApplication(v1.train.GradientDescentOptimizer(1.0), None, None),
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


def test_no_gradients_are_left_to_the_optimizer_to_refuse():
    assert GradientClipping(1.0).clip([]) == []
