"""Functions whose arguments changed take the old ones, in the old order."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.old_modules import old_module, with_old_arguments
from replicate.compat.table import TABLE

v1 = tf.compat.v1
PREDICTED, LABELS = np.array([1, 1, 0, 1, 0]), np.array([1, 0, 1, 1, 0])
WEIGHTS = np.array([1.0, 1.0, 1.0, 2.0, 1.0], np.float32)


def value(metric):
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run(metric[1])
        return session.run(metric[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("recall", 3 / 4), ("accuracy", 4 / 6)],
)
def test_streaming_metrics_take_predictions_first(graph, name, expected):
    function = getattr(old_module("tf.contrib.metrics", "replicate.v1"), f"streaming_{name}")
    assert value(function(PREDICTED, LABELS, WEIGHTS)) == pytest.approx(expected)
    by_name = function(labels=LABELS, weights=WEIGHTS, predictions=PREDICTED)
    assert value(by_name) == pytest.approx(expected)


@pytest.mark.parametrize("old", [row.old for row in TABLE.values() if row.keywords])
def test_new_names_are_parameters_of_the_replacement(old):
    row = TABLE[old]
    function = v1
    for part in row.new.split(".")[1:]:
        function = getattr(function, part)
    for _, new in row.keywords:
        with pytest.raises(TypeError, match="no_such_argument"):
            function(**{new: None, "no_such_argument": None})


def test_old_arguments_are_renamed_and_too_many_are_told():
    function = with_old_arguments(lambda b, a: (a, b), (("old", "a"), ("b", "b")))
    assert function(1, 2) == function(old=1, b=2) == (1, 2)
    with pytest.raises(TypeError, match=r"takes 2 positional arguments, old, b; got 3\."):
        function(1, 2, 3)
