"""Loads of checkpoints that lack optimizer state, whole and partitioned."""

import logging

import pytest
import tensorflow as tf

from replicate.estimator.checkpoints.state_saver import StateSaver
from replicate.estimator.log import log
from replicate.saved.optional_state import OptimizerState

v1 = tf.compat.v1


def build(value):
    """Two weights, one of them in two parts, each with an optimizer that has slots."""
    ones = v1.constant_initializer(value)
    whole = v1.get_variable("whole", [2], initializer=ones)
    with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(2)):
        parts = list(v1.get_variable("parts", [2, 1], initializer=ones))
    adagrad, momentum = v1.train.AdagradOptimizer(0.1), v1.train.MomentumOptimizer(0.1, 0.9)
    loss = tf.reduce_sum(whole) + tf.add_n([tf.reduce_sum(part) for part in parts])
    train_op = [
        adagrad.minimize(loss, var_list=parts),
        momentum.minimize(loss, var_list=[whole]),
    ]
    states = [OptimizerState(each.get_name(), each.variables()) for each in (adagrad, momentum)]
    return train_op, states


def slots(states, session):
    return [session.run(state.variables)[0].ravel().tolist() for state in states]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Checkpoints after a step: of everything, without each state, and without a weight."""
    folder = tmp_path_factory.mktemp("saved")
    with tf.Graph().as_default(), v1.Session() as session:
        train_op, (adagrad, momentum) = build(3.0)
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        without = {
            "nothing": [],
            "Adagrad": adagrad.variables,
            "both": [*adagrad.variables, *momentum.variables],
            "whole": v1.trainable_variables("whole"),
        }
        paths = {}
        for name, left_out in without.items():
            names = {each.op.name for each in left_out}
            kept = [each for each in v1.global_variables() if each.op.name not in names]
            paths[name] = v1.train.Saver(kept).save(session, str(folder / name))
    return paths


@pytest.mark.parametrize(
    ("left_out", "expected", "initialized"),
    [
        ("nothing", [[1.1], [1.0, 1.0]], []),
        ("Adagrad", [[0.1], [1.0, 1.0]], ["Adagrad"]),
        ("both", [[0.1], [0.0, 0.0]], ["Adagrad", "Momentum"]),
    ],
)
def test_state_that_is_not_there_is_initialized(
    left_out, expected, initialized, checkpoints, graph, caplog
):
    _, states = build(7.0)
    saver = StateSaver(None, states)
    graph.finalize()
    caplog.set_level(logging.INFO, log.name)
    with v1.Session() as session:
        saver.restore(session, checkpoints[left_out])
        weights = session.run(v1.trainable_variables())
        found = slots(states, session)
    assert weights[0].tolist() == pytest.approx([2.9, 2.9])
    assert all(2.9 <= weight.max() < 3 for weight in weights)
    assert found == [pytest.approx(each) for each in expected]
    told = [record.getMessage() for record in caplog.records if record.name == log.name]
    assert len(told) == len(initialized)
    for text, owner in zip(told, initialized, strict=True):
        assert f"lacks the slots and other state of {owner} under the names of this model" in text


def test_missing_weight_stays_an_error(checkpoints, graph):
    _, states = build(7.0)
    with v1.Session() as session, pytest.raises(tf.errors.NotFoundError, match="whole"):
        StateSaver(None, states).restore(session, checkpoints["whole"])


def test_names_in_checkpoints_are_those_of_the_mapping(checkpoints, graph):
    _, (_, momentum) = build(7.0)
    other = v1.get_variable("other", [2])
    objects = {"whole": other, **{each.op.name: each for each in momentum.variables}}
    with v1.Session() as session:
        StateSaver(objects, [momentum]).restore(session, checkpoints["both"])
        assert session.run(other).tolist() == pytest.approx([2.9, 2.9])
        assert session.run(momentum.variables)[0].tolist() == [0, 0]
