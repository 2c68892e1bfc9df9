import dataclasses

import pytest
import tensorflow as tf

import kfac
from kfac.update.assembly import StepSettings, assemble_step
from kfac.update.damping import GivenDamping
from kfac.update.damping_adaptation import AdaptationSettings, AdaptedDamping
from kfac.update.momentum import AdamMomentum, RegularMomentum
from kfac.update.momentum.choice import MomentumSettings
from kfac.update.training_loss import TrainingLoss

MOMENTUM = MomentumSettings(0.1, 0.9, None, None, None, None, tf.float32)
ADAPTATION = AdaptationSettings(
    immediately=True,
    is_chief=True,
    interval=1,
    decay=0.9,
    decrease_threshold=0.75,
    increase_threshold=0.25,
    minimum=0.0,
    maximum=None,
    rejection_threshold=None,
    calibrate=False,
    print_logs=False,
)


def settings(**changes):
    given = {
        "damping": 0.5,
        "adapt_damping": False,
        "adaptation": ADAPTATION,
        "momentum_type": "adam",
        "momentum": MOMENTUM,
        "model_damping": None,
        "dtype": tf.float32,
    }
    return StepSettings(**{**given, **changes})


def assembled(**changes):
    layers = kfac.LayerCollection()
    estimator = kfac.estimator.FisherEstimator(None, 0.95, 0.5, layers)
    losses = TrainingLoss(None, None, None, None, True, layers)
    return assemble_step("step", estimator, losses, settings(**changes), lambda variables: [], list)


@pytest.mark.parametrize(
    ("changes", "damping", "momentum"),
    [
        ({}, GivenDamping, AdamMomentum),
        ({"adapt_damping": True, "momentum_type": "regular"}, AdaptedDamping, RegularMomentum),
    ],
)
def test_the_step_follows_the_rules_of_the_settings(graph, changes, damping, momentum):
    parts = assembled(**changes)
    assert isinstance(parts.damping, damping)
    assert isinstance(parts.momentum, momentum)
    parts.damping.make_variables()
    counter = parts.step.counter("counter")
    names = [variable.op.name for variable in (counter, *parts.damping.variables)]
    assert [variable.op.name for variable in parts.step.variables] == names


@pytest.mark.parametrize(
    ("adapt_damping", "calibrate", "momentum_type", "expected"),
    [
        (False, False, "regular", False),
        (True, False, "adam", False),
        (True, False, "regular", True),
        (True, True, "adam", True),
    ],
)
def test_damping_reads_averages_if_calibrated_or_adapted_by_products(
    adapt_damping, calibrate, momentum_type, expected
):
    found = settings(
        adapt_damping=adapt_damping,
        adaptation=dataclasses.replace(ADAPTATION, calibrate=calibrate),
        momentum_type=momentum_type,
    )
    assert found.damping_reads_averages is expected
