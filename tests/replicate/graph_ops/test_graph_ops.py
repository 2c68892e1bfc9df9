"""Small helpers on graphs: conditions, descriptions, checks of values."""

import re

import numpy as np
import pytest
import tensorflow as tf

from replicate import errors
from replicate.errors import NonFiniteError
from replicate.graph_ops import checks as step_checks
from replicate.graph_ops.checks import user_errors
from replicate.graph_ops.conditional import run_if, run_unless
from replicate.graph_ops.finite import finite_flags, require_finite, watched, watched_all

v1 = tf.compat.v1


@pytest.fixture(params=["v2", "v1"])
def behavior(request):
    """TensorFlow as it is, and with the control flow that `disable_v2_behavior` brings back."""
    if request.param == "v1":
        v1.disable_control_flow_v2()
    yield
    v1.enable_control_flow_v2()


def run(op, wanted, values, fetch=()):
    """Runs `op` with each value of the placeholder; returns the variables after each run."""
    history = []
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for value in values:
            fetched = session.run([op, *fetch], {wanted: value})[1:]
            history.append((session.run({v.op.name: v for v in v1.global_variables()}), fetched))
    return history


def test_optimizer_applies_only_in_steps_that_meet_the_condition(graph, behavior):
    wanted = v1.placeholder(tf.bool, [])
    weights, reference = (
        v1.get_variable(name, initializer=[1.0, 2.0], use_resource=name == "w") for name in "wr"
    )
    optimizer = v1.train.AdamOptimizer(0.1)
    pairs = optimizer.compute_gradients(tf.reduce_sum(weights**2 + reference**2))
    op = run_if(wanted, lambda: optimizer.apply_gradients(pairs))
    history = [values for values, _ in run(op, wanted, [True, False, False, True])]
    for name, value in history[0].items():
        np.testing.assert_array_equal(history[2][name], value)
        assert (history[3][name] != value).any()
    for name in "wr":
        np.testing.assert_allclose(history[0][name], [0.9, 1.9], rtol=1e-6)


def test_operation_keeps_control_dependencies_in_order(graph):
    wanted = v1.placeholder(tf.bool, [])
    a, b = (v1.get_variable(name, initializer=1.0) for name in "ab")
    with v1.control_dependencies([v1.assign_add(a, 1.0)]):
        op = run_if(wanted, lambda: v1.assign(b, 10.0 * a.read_value()).op)
    with v1.control_dependencies([op]):
        last = b.read_value() + a.read_value()
    history = run(op, wanted, [False, True, False], [last])
    assert [fetched for _, fetched in history] == [[3.0], [33.0], [34.0]]


def test_unless_runs_in_the_other_steps(graph, behavior):
    wanted = v1.placeholder(tf.bool, [])
    count = v1.get_variable("count", initializer=0)
    op = run_unless(wanted, lambda: count.assign_add(1).op)
    history = run(op, wanted, [True, False, False, True])
    assert [values["count"] for values, _ in history] == [0, 1, 2, 2]


def test_conditions_are_on_the_cpu_and_operations_where_they_were(graph):
    made = []
    with v1.device("/device:GPU:1"):
        wanted = v1.placeholder_with_default(True, [])
        before = set(graph.get_operations())
        run_if(wanted, lambda: made.append(v1.no_op()) or made[0])
    plumbing = set(graph.get_operations()) - before - set(made)
    assert {operation.device for operation in plumbing} == {"/device:CPU:0"}
    assert made[0].device == "/device:GPU:1"


def entries_of(dtype):
    """Two gradients and a loss, all of them fed, the second gradient on another device."""
    kinds = {(2, 2): dtype, (3,): dtype, (): tf.float32}
    feeds = [v1.placeholder(kind, shape) for shape, kind in kinds.items()]
    with v1.device("/cpu:1"):
        second = watched(feeds[1], "The gradient of b")
    found = [watched(feeds[0], "The gradient of a"), second]
    return feeds, [*found, watched(feeds[2], "The loss", is_loss=True)]


def session():
    return v1.Session(config=v1.ConfigProto(device_count={"CPU": 2}))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64])
def test_flags_mark_tensors_that_are_not_finite(graph, dtype):
    feeds, entries = entries_of(dtype)
    flags, descriptions = finite_flags(entries)
    assert descriptions == ("The loss", "The gradient of a", "The gradient of b")
    largest = 6e4 if dtype == tf.float16 else 1e18
    fine = [np.full([2, 2], largest), np.zeros([3]), -1.0]
    with session() as s:

        def flags_of(*values):
            return s.run(flags, dict(zip(feeds, values, strict=True))).tolist()

        assert flags_of(*fine) == [True, True, True]
        for bad in (np.nan, np.inf, -np.inf):
            assert flags_of(fine[0], [0.0, bad, 1.0], fine[2]) == [True, True, False]
            assert flags_of([[bad, 0.0], [-bad, 0.0]], fine[1], bad) == [False, False, True]


def test_many_gradients_keep_their_descriptions(graph):
    shapes = {"a": [2, 2], "b": [3], "c": [], "d": [3], "e": [2], "f": None, "g": [3], "h": [None]}
    shapes |= {"i": [3], "j": [2], "k": [3, 1]}
    feeds = {name: v1.placeholder(tf.float32, shape) for name, shape in shapes.items()}
    (entry,) = watched_all((feed, name) for name, feed in feeds.items())
    flags, descriptions = finite_flags([entry])
    assert sorted(descriptions) == list(shapes)
    fine = {feed: np.ones(shapes[name] or []) for name, feed in feeds.items() if name != "h"}
    fine[feeds["h"]] = np.ones([4])
    with session() as s:
        assert s.run(flags, fine).all()
        for name, feed in feeds.items():
            bad = s.run(flags, {**fine, feed: np.full_like(fine[feed], np.nan)})
            assert [name] == [
                told for told, flag in zip(descriptions, bad, strict=True) if not flag
            ]


@pytest.mark.parametrize(("loss", "named"), [(1.0, "The gradient of a"), (np.inf, "The loss")])
def test_failure_names_the_first_loss_or_gradient(graph, loss, named):
    feeds, entries = entries_of(tf.float32)
    required = require_finite(entries)
    fine, bad = [np.ones([2, 2]), np.ones([3]), 1.0], [np.full([2, 2], np.nan), np.ones([3]), loss]
    text = f"{named} is NaN or infinite; no variable was changed in this step. Look"
    with session() as s, user_errors():
        s.run(required, dict(zip(feeds, fine, strict=True)))
        with pytest.raises(NonFiniteError, match="^" + re.escape(text)), user_errors():
            s.run(required, dict(zip(feeds, bad, strict=True)))


def run_checked(fetch, feed=None):
    with v1.Session() as session, step_checks.user_errors():
        return session.run(fetch, feed)


def test_failure_has_the_text_of_its_step(graph):
    name = v1.placeholder(tf.string, [])
    failure = step_checks.failure_unless(
        tf.not_equal(name, "ok"), tf.strings.join([name, " ≥ 'x'\n"])
    )
    run_checked(failure, {name: "bad"})
    with pytest.raises(errors.NonFiniteError, match=r"^ok ≥ 'x'\n$"):
        run_checked(failure, {name: "ok"})


def test_other_errors_pass_unchanged(graph):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not ours"):
        run_checked(v1.debugging.Assert(tf.constant(False), ["not ours"]))
