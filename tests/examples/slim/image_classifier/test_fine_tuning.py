"""Scopes select the trained and the restored variables."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.image_classifier import fine_tuning
from examples.slim.image_classifier.data_flags import FlagError
from examples.slim.image_classifier.fine_tuning import FineTuning

v1 = tf.compat.v1
SHAPES = {"net/conv/weights": [2], "net/conv/mean": [], "net/logits/weights": [3], "net/new": []}


@pytest.fixture
def checkpoint(tmp_path):
    """One without net/new, whose values are all 5."""
    with tf.Graph().as_default(), v1.Session() as session:
        for name, shape in list(SHAPES.items())[:3]:
            v1.get_variable(name, shape, initializer=v1.constant_initializer(5.0))
        session.run(v1.global_variables_initializer())
        return v1.train.Saver().save(session, str(tmp_path / "model.ckpt"), 7)


@pytest.fixture
def variables(graph):
    return [
        v1.get_variable(
            name, shape, initializer=v1.zeros_initializer(), trainable="mean" not in name
        )
        for name, shape in SHAPES.items()
    ]


def names(variables):
    return [variable.op.name for variable in variables]


@pytest.mark.parametrize(
    ("scopes", "wanted"),
    [
        (None, ["net/conv/weights", "net/logits/weights", "net/new"]),
        (" net/new , net/conv", ["net/new", "net/conv/weights"]),
        ("net/conv,net", ["net/conv/weights", "net/logits/weights", "net/new"]),
    ],
)
def test_variables_to_train(variables, scopes, wanted):
    assert names(fine_tuning.variables_to_train(scopes)) == wanted


def test_scope_without_variables_is_refused(variables):
    with pytest.raises(FlagError, match=r"in scope 'other'. Scopes of this model are net, net/co"):
        fine_tuning.variables_to_train("net,other")


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"checkpoint_exclude_scopes": "net/new"}, list(SHAPES)[:3]),
        ({"checkpoint_exclude_scopes": " net/new,net/logits "}, list(SHAPES)[:2]),
        ({"ignore_missing_vars": True}, list(SHAPES)[:3]),
    ],
)
def test_variables_to_restore(variables, checkpoint, settings, wanted):
    settings = FineTuning(checkpoint_path=checkpoint, **settings)
    assert names(fine_tuning.variables_to_restore(settings, variables, checkpoint)) == wanted


@pytest.mark.parametrize(
    ("name", "shape", "ignores", "message"),
    [
        ("net/new", [], False, "it has no net/new. Leave them out by --checkpoint_excl"),
        ("net/new", [], True, "it has no variable of this model"),
        ("net/logits/weights", [4], False, r"net/logits/weights is \[3\] there and \[4\] here"),
    ],
)
def test_variables_that_differ_are_named(graph, checkpoint, name, shape, ignores, message):
    settings = FineTuning(checkpoint_path=checkpoint, ignore_missing_vars=ignores)
    with pytest.raises(FlagError, match=message):
        fine_tuning.variables_to_restore(settings, [v1.get_variable(name, shape)], checkpoint)


def test_run_begins_with_the_values_and_so_do_the_averages(checkpoint, capsys, tmp_path):
    settings = FineTuning(checkpoint_path=str(tmp_path), checkpoint_exclude_scopes="net/new")
    with tf.Graph().as_default(), v1.Session() as session:
        made = [
            v1.get_variable(name, shape, initializer=v1.zeros_initializer())
            for name, shape in SHAPES.items()
        ]
        averages = v1.train.ExponentialMovingAverage(0.9)
        averages.apply(made)
        begin = fine_tuning.initial_values(settings, made, averages)
        session.run(v1.global_variables_initializer())
        begin(None, session)
        for variable, wanted in zip(made, [5, 5, 5, 0], strict=True):
            np.testing.assert_array_equal(session.run(variable), np.full(variable.shape, wanted))
            average = session.run(averages.average(variable))
            np.testing.assert_array_equal(average, np.full(variable.shape, wanted))
    assert "3 of 4 variables of" in capsys.readouterr().out
