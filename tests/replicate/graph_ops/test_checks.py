"""Checks that run inside a step and surface as readable errors."""

import pytest
import tensorflow as tf

from replicate import errors
from replicate.graph_ops import checks as step_checks

v1 = tf.compat.v1


def run(fetch, feed=None):
    with v1.Session() as session, step_checks.user_errors():
        return session.run(fetch, feed)


def test_batch_check_fails_with_its_text(graph):
    rows = v1.placeholder(tf.int32, [])
    check = step_checks.batch_check(rows > 2, "Cannot use {} rows of {}.", rows, tf.constant(9))
    run(check, {rows: 3})
    with pytest.raises(ValueError, match=r"^Cannot use 1 rows of 9\.$"):
        run(check, {rows: 1})


def test_failure_has_the_text_of_its_step(graph):
    name = v1.placeholder(tf.string, [])
    failure = step_checks.failure_unless(
        tf.not_equal(name, "ok"), tf.strings.join([name, " ≥ 'x'\n"])
    )
    run(failure, {name: "bad"})
    with pytest.raises(errors.NonFiniteError, match=r"^ok ≥ 'x'\n$"):
        run(failure, {name: "ok"})


def test_other_errors_pass_unchanged(graph):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not ours"):
        run(v1.debugging.Assert(tf.constant(False), ["not ours"]))
