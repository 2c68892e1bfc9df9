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


def test_variables_to_train(variables):
    conv, _, logits, new = SHAPES
    for scopes, wanted in (
        (None, [conv, logits, new]),
        (" net/new , net/conv", [new, conv]),
        ("net/conv,net", [conv, logits, new]),
    ):
        assert names(fine_tuning.variables_to_train(scopes)) == wanted
    with pytest.raises(FlagError, match=r"in scope 'other'. Scopes of this model are net, net/co"):
        fine_tuning.variables_to_train("net,other")


def test_variables_to_restore(variables, checkpoint, graph):
    def restored(variables, **settings):
        settings = FineTuning(checkpoint_path=checkpoint, **settings)
        return names(fine_tuning.variables_to_restore(settings, variables, checkpoint))

    there, new = list(SHAPES)[:3], variables[3:]
    assert restored(variables, checkpoint_exclude_scopes="net/new") == there
    assert restored(variables, checkpoint_exclude_scopes=" net/new,net/logits ") == there[:2]
    assert restored(variables, ignore_missing_vars=True) == there
    with pytest.raises(FlagError, match=r"it has no net/new\. Leave them out by --checkpoint_excl"):
        restored(new)
    with pytest.raises(FlagError, match="it has no variable of this model"):
        restored(new, ignore_missing_vars=True)
    with tf.Graph().as_default():
        longer = v1.get_variable("net/logits/weights", [4])
        with pytest.raises(FlagError, match=r"net/logits/weights is \[3\] there and \[4\] here"):
            restored([longer])


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
