"""Rules that decide if the gradients of a step may be applied."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import NonFiniteError
from replicate.gradients.acceptance import (
    FailOnNonFinite,
    SkipNonFinite,
    SkipOverflow,
    StepAcceptance,
    step_acceptance,
)
from replicate.gradients.loss_scale import DynamicLossScale, LossScaling
from replicate.gradients.skipping import NonFiniteSkipping
from replicate.graph_ops.checks import user_errors
from replicate.graph_ops.finite import watched
from replicate.tower.build import TowerGradients

v1 = tf.compat.v1


class Step:
    """A step of two towers with one gradient of each; a rule decides about it."""

    def __init__(self, make_rule):
        self._values = v1.placeholder(tf.float32, [2])
        weight = v1.get_variable("w", initializer=0.0)
        towers = [
            TowerGradients(
                [(self._values[index], weight)],
                [watched(self._values[index], f"The gradient of tower {index}")],
                tf.no_op(),
                v1.get_variable_scope(),
                "",
            )
            for index in range(2)
        ]
        self.rule = make_rule()
        summed = [(self._values[0] + self._values[1], weight)]
        requirements = self.rule.requirements(towers, summed)
        accepted = self.rule.judge(towers, summed)
        self.train_op = tf.no_op()
        self.recorded = self.rule.record(accepted, self.train_op)
        fetched = tf.constant(value=True) if accepted is None else accepted
        self._fetches = [fetched, self.recorded, requirements]
        self.session = v1.Session()
        self.session.run(v1.global_variables_initializer())

    def is_accepted(self, *values):
        with user_errors():
            return bool(self.session.run(self._fetches, {self._values: values})[0])


def scaling(initial=4.0):
    return LossScaling(DynamicLossScale(initial))


@pytest.mark.parametrize(
    ("make_state", "kind"),
    [
        (lambda: (None, None), FailOnNonFinite),
        (lambda: (None, scaling()), SkipOverflow),
        (lambda: (NonFiniteSkipping(1), None), SkipNonFinite),
        (lambda: (NonFiniteSkipping(1), scaling()), SkipNonFinite),
    ],
)
def test_settings_choose_the_rule(graph, make_state, kind):
    assert type(step_acceptance(*make_state())) is kind


def test_rule_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        StepAcceptance()


def test_non_finite_gradient_fails_the_step(graph):
    step = Step(FailOnNonFinite)
    assert step.recorded is step.train_op
    assert step.is_accepted(1.0, 2.0)
    with pytest.raises(NonFiniteError, match=r"^The gradient of tower 1 is NaN or infinite"):
        step.is_accepted(1.0, np.nan)


def test_overflow_is_skipped_and_halves_the_loss_scale(graph):
    scale = scaling()
    step = Step(lambda: SkipOverflow(scale))
    assert step.is_accepted(1.0, 2.0)
    assert not step.is_accepted(1.0, np.inf)
    assert step.session.run([scale.factor, scale.skipped]) == [2.0, 1]


def test_overflow_of_the_sum_is_skipped_and_counted(graph):
    skipping = NonFiniteSkipping(1)
    step = Step(lambda: SkipNonFinite(skipping, None))
    assert step.is_accepted(1.0, 2.0)
    assert not step.is_accepted(3e38, 3e38)
    assert skipping.descriptions[-1] == "Summed over towers, gradient of w"
    assert step.session.run([skipping.total, skipping.in_a_row]) == [1, 1]


def test_step_is_counted_once_by_the_loss_scale_or_by_skipping(graph):
    scale = scaling(2.0)
    skipping = NonFiniteSkipping(1)
    step = Step(lambda: SkipNonFinite(skipping, scale))
    history = []
    for value in (np.inf, np.inf, 1.0):
        step.is_accepted(value, 1.0)
        history.append(step.session.run([scale.factor, scale.skipped, skipping.total]))
    assert history == [[1.0, 1, 0], [1.0, 1, 1], [1.0, 1, 1]]
