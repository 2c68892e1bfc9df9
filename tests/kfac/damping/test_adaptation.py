"""Damping on a loss ½cθ² of one weight θ, with models that are right or wrong."""

import math

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.damping import adaptation
from kfac.damping.adaptation import AdaptedDamping
from kfac.damping.interface import ModelChange
from kfac.damping.training_loss import TrainingLoss
from kfac.settings import KfacSettings
from kfac.state import assign_all, read

v1 = tf.compat.v1
NAN = float("nan")


def settings(**kwargs):
    chosen = {"damping_adaptation_interval": 2, "damping_adaptation_decay": 0.5}
    chosen |= {"damping": 1.0, "adapt_damping": True, "min_damping": 1e-3, **kwargs}
    return KfacSettings(learning_rate=None, **chosen)


@pytest.mark.parametrize(
    ("loss_change", "model_change", "expected"),
    [
        (-1.0, -1.0, 0.25),  # rho = 1
        (-0.76, -1.0, 0.25),
        (-0.74, -1.0, 1.0),
        (-0.26, -1.0, 1.0),
        (-0.24, -1.0, 4.0),
        (0.5, -1.0, 4.0),
        (-0.5, 1.0, 0.25),  # The loss fell although the model foretold a rise.
        (0.1, 1.0, 4.0),
        (NAN, -1.0, 4.0),
        (float("inf"), -1.0, 4.0),
        (float("-inf"), -1.0, 4.0),
        (-1.0, NAN, 1.0),
    ],
)
def test_rule(graph, session, loss_change, model_change, expected):
    changes = (tf.constant(loss_change), tf.constant(model_change))
    start = tf.constant([1.0, 0.02, 30.0])
    new = adaptation.adapted_damping(start, *changes, settings(min_damping=0.01, max_damping=20.0))
    limited = np.clip(expected * np.array([1.0, 0.02, 30.0]), 0.01, 20.0)
    np.testing.assert_allclose(session.run(new), limited, rtol=1e-6)


def test_rejection(graph, session):
    rows = [
        (-0.1, -1.0, 0.0, False),
        (0.1, -1.0, 0.0, True),
        (0.1, 1.0, 0.0, True),
        (-0.1, -1.0, 0.2, True),
        (-0.3, -1.0, 0.2, False),
        (0.1, -1.0, -0.2, False),
        (NAN, -1.0, 0.0, True),
        (float("inf"), -1.0, -100.0, True),
    ]
    found = [
        adaptation.is_rejected(tf.constant(change), tf.constant(model), threshold)
        for change, model, threshold, _ in rows
    ]
    assert session.run(found) == [expected for *_, expected in rows]


class Descent:
    """Steps on ½cθ², c being fed; each halves θ and foretells the given change of the loss."""

    def __init__(
        self, initial=1.0, accepted=True, mean=lambda: tf.constant(3.0), seconds=dict, **kwargs
    ):
        self.theta = v1.get_variable("theta", initializer=4.0)
        self.counter = v1.get_variable("counter", initializer=tf.constant(0, tf.int64))
        self.c = v1.placeholder_with_default(2.0, [])
        self.last_c = v1.placeholder_with_default(2.0, [])
        self.change = v1.placeholder_with_default(-12.0, [])
        losses = TrainingLoss(
            None,
            lambda c: 0.5 * c * tf.square(self.theta),
            self.c,
            self.last_c,
            True,
            kfac.LayerCollection(),
        )
        losses.collect(0.5 * self.c * tf.square(self.theta))
        self.kept = ModelChange("float32")
        self.rule = AdaptedDamping(settings(damping=initial, **kwargs), losses, self.kept)
        self.rule.check_variables([self.theta])
        self.rule.make_variables()
        self.kept.make_variables()
        self.before = self.rule.before_step(read(self.counter), mean, seconds)
        with v1.control_dependencies([self.before.done]):
            prediction = self.rule.predict(
                read(self.counter), tf.constant(accepted), lambda: self.change, tf.float32
            )
        needed = [] if prediction is None else list(prediction)
        with v1.control_dependencies(needed):
            step = v1.assign(self.theta, 0.5 * self.theta.read_value())
        with v1.control_dependencies([step.op if hasattr(step, "op") else step]):
            verdict = self.rule.verdict(prediction, seconds)
            self.rejected = verdict.rejected
            change = self.kept.kept(prediction.due, prediction.model_change) if prediction else []
            count = v1.assign_add(self.counter, 1)
            self.train = tf.group(assign_all([*verdict.state, *change]), count)

    def damping(self, session):
        return session.run(self.rule.damping)


def test_immediately(graph, session):
    """The loss falls from 4 to 1 at the second step: by what is foretold, or by far less."""
    descent = Descent()
    assert descent.before.inverse_damping is None  # As it is read.
    session.run(v1.global_variables_initializer())
    session.run(descent.train)
    assert np.isnan(session.run([descent.rule.rho, descent.kept.variable])).all()
    session.run(descent.train, {descent.change: -3.0})
    state = [*descent.rule.variables, descent.kept.variable]
    assert session.run(state) == [0.25, 1.0, 4.0, -3.0]
    session.run(descent.train)
    session.run(descent.train, {descent.change: -3.0})  # From 0.25 to 0.0625.
    assert session.run(state) == [1.0, 0.0625, 0.25, -3.0]


def test_at_the_next_step(graph, session):
    """Judged by the batch of the step before: its c, not the new one's."""
    descent = Descent(update_damping_immediately=False)
    session.run(v1.global_variables_initializer())
    session.run(descent.train)
    session.run(descent.train, {descent.change: -6.0, descent.c: 4.0})
    assert session.run(descent.rule.variables[2]) == 8.0
    assert descent.damping(session) == 1.0
    session.run(descent.train, {descent.last_c: 4.0, descent.c: 100.0})
    assert session.run([descent.rule.damping, descent.rule.rho]) == [0.25, 1.0]
    session.run(descent.train, {descent.change: 5.0})
    session.run(descent.train)
    assert descent.damping(session) == 0.0625
    assert session.run(descent.rule.rho) < 0


def test_a_step_is_judged_once(graph, session):
    """Its loss is forgotten then: a skipped step after it must not be taken for it."""
    descent = Descent(update_damping_immediately=False, damping_adaptation_interval=1)
    judge = descent.rule.before_step(read(descent.counter), lambda: tf.constant(3.0), dict)
    session.run(v1.global_variables_initializer())
    session.run(descent.train, {descent.change: -3.0})  # From 16 to 4, foretold too small.
    assert session.run(descent.rule.variables[2]) == 16.0
    for expected in (1.0, 0.5, 0.5):  # Inverses use the damping from before the judgement.
        assert session.run(judge)[1] == expected
        assert session.run([descent.rule.damping, descent.rule.rho]) == [0.5, 4.0]
        assert np.isnan(session.run(descent.rule.variables[2]))


@pytest.mark.parametrize("immediately", [True, False])
def test_only_the_chief_adapts(graph, session, immediately):
    descent = Descent(
        is_chief=False, update_damping_immediately=immediately, calibrate_damping=True
    )
    session.run(v1.global_variables_initializer())
    for _ in range(5):
        session.run(descent.train, {descent.change: -3.0})
    assert descent.damping(session) == 1.0
    names = [v.op.name for v in descent.rule.variables]
    assert names == [f"kfac/{n}" for n in ("damping", "rho", "prev_loss")]
    assert np.isnan(session.run(descent.kept.variable))


@pytest.mark.parametrize(("mean", "expected"), [(3.0, 1.5), (NAN, 0.5), (0.0, 0.5), (1e9, 2.0)])
def test_calibration(graph, session, mean, expected):
    descent = Descent(
        initial=0.5,
        mean=lambda: tf.constant(mean),
        calibrate_damping=True,
        max_damping=2.0,
        damping_adaptation_interval=100,
    )
    session.run(v1.global_variables_initializer())
    for _ in range(3):
        session.run(descent.train)
        assert descent.damping(session) == expected


def test_variable_of_the_user_is_adapted_itself(graph, session):
    mine = v1.get_variable("mine", initializer=tf.constant(8.0, tf.float64), trainable=False)
    descent = Descent(initial=mine, damping_adaptation_interval=1)
    session.run(v1.global_variables_initializer())
    session.run(descent.train)
    assert session.run(mine) == 4.0
    assert descent.rule.damping is mine


def test_initial_value_may_be_computed(graph, session):
    descent = Descent(initial=lambda: tf.constant(0.125, tf.float64), rejection_rho_threshold=0.5)
    session.run(v1.global_variables_initializer())
    found = session.run(descent.rule.summaries)
    assert found["damping"] == 0.125
    assert math.isnan(found["rho"])
    # Only the second step is judged: the loss falls by 3, not by 12.
    found = [session.run([descent.rejected, descent.train])[0] for _ in range(2)]
    assert found == [False, True]


@pytest.mark.parametrize(("decay", "repeated"), [(0.8, 2.0), (0.25, 4.0), (1.0, 1.0)])
def test_rejections_in_a_row_raise_damping_faster(graph, session, decay, repeated):
    """The first of a row raises it as the rule does. A loss that is not a number is rejected."""
    descent = Descent(
        damping_adaptation_interval=1,
        damping_adaptation_decay=decay,
        rejection_rho_threshold=0.0,
        max_damping=20.0,
    )
    session.run(v1.global_variables_initializer())
    damping, up, down = 1.0, -2.0, 2.0  # The loss rises if c < 0.
    rises = [(up, 1 / decay), (up, repeated), (NAN, repeated)]
    for c, factor in [*rises, (down, decay), *rises]:
        session.run(descent.train, {descent.c: c, descent.change: -1e-6})
        damping = min(damping * factor, 20.0)
        assert descent.damping(session) == pytest.approx(damping, rel=1e-5)


def test_log(graph, session):
    seconds = {"inverse": tf.constant(0.25, name="known_seconds")}
    descent = Descent(damping_adaptation_interval=1, print_logs=True, seconds=lambda: seconds)
    session.run(v1.global_variables_initializer())
    functions = str(graph.as_graph_def().library)
    assert "PrintV2" in functions
    assert "K-FAC: rho %s damping %s inverse %s s" in functions.replace("{}", "%s")
    session.run(descent.train)
    assert descent.damping(session) == 0.5


def test_reference_variables(graph):
    with v1.variable_scope("", use_resource=False):
        weight = v1.get_variable("weight", [])

    def make(**kwargs):
        return AdaptedDamping(settings(**kwargs), None, None)

    with pytest.raises(ValueError, match=r"weight are reference variables.*use_resource=True"):
        make().check_variables([weight])
    make(update_damping_immediately=False).check_variables([weight])
