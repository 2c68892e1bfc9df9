"""The benchmark of a K-FAC step: its programs, its counts of operations, and its output."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from benchmarks import harness
from benchmarks.kfac_step import AVERAGE_EVERY, operation_counts, step_programs
from benchmarks.kfac_step import __main__ as benchmark
from benchmarks.session_programs import traced
from kfac.linalg.shared import shared
from kfac.state import run_if

v1 = tf.compat.v1


def operations_of(fetches, feeds):
    with v1.Session() as session:
        return operation_counts.executed_operations(traced(session, fetches, feeds))


def test_counts_matrix_products(graph):
    x, y = (v1.placeholder(tf.float32, shape) for shape in ([3, 4], [3, 5]))
    batch = tf.stack([x, 2 * x])
    products = [tf.matmul(x, y, transpose_a=True), tf.matmul(batch, batch, transpose_b=True)]
    found = operations_of(products, {x: np.ones([3, 4]), y: np.ones([3, 5])})
    assert found == 2 * 4 * 3 * 5 + 2 * 2 * 3 * 4 * 3


def test_counts_convolution_and_its_gradients(graph):
    x, w = (v1.placeholder(tf.float32, shape) for shape in ([2, 6, 7, 3], [3, 3, 3, 4]))
    outputs = tf.nn.conv2d(x, w, 1, "SAME")
    gradients = v1.gradients(tf.reduce_sum(outputs**2), [x, w])
    found = operations_of(gradients, {x: np.ones([2, 6, 7, 3]), w: np.ones([3, 3, 3, 4])})
    assert found == 3 * 2 * (2 * 6 * 7 * 4) * (3 * 3 * 3)


def test_counts_only_what_ran_behind_a_condition(graph):
    x, due = v1.placeholder(tf.float32, [3, 3]), v1.placeholder(tf.bool, [])
    either = tf.cond(x[0, 0] > 0, lambda: tf.matmul(x, x), lambda: x)
    assert operations_of(either, {x: np.zeros([3, 3])}) == 0
    assert operations_of(either, {x: np.ones([3, 3])}) == 54
    outside = tf.matmul(x, 2 * x)
    square = run_if(due, lambda: tf.matmul(tf.matmul(x, x), outside).op)
    feeds = {x: np.ones([3, 3])}
    assert operations_of([square, outside], {**feeds, due: False}) == 54
    assert operations_of([square, outside], {**feeds, due: True}) == 3 * 54


def test_counts_each_round_of_a_loop(graph):
    x = v1.placeholder(tf.float32, [3, 3])
    _, power = tf.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, tf.matmul(x, y)), (0, x))
    assert operations_of(power, {x: np.ones([3, 3])}) == 4 * 54


@shared
def square(x):
    return tf.matmul(x, x)


def test_counts_calls_of_functions_once_they_are_inlined():
    with tf.Graph().as_default() as graph:
        x, y = (v1.placeholder(tf.float32, [n, n]) for n in (3, 4))
        products = [square(x), square(y), tf.matmul(x, 2 * x)]
    names, feeds = [each.name for each in products], {"Placeholder:0": np.ones([3, 3])}
    with step_programs.inlined_session(graph) as session:
        trace = traced(session, names, {**feeds, "Placeholder_1:0": np.ones([4, 4])})
    assert operation_counts.executed_operations(trace) == 54 + 128 + 54


def test_kfac_executes_more_operations_in_an_interval(monkeypatch):
    monkeypatch.setattr(step_programs, "INVERT_EVERY", 1)
    kfac, momentum = (
        step_programs.Program("convnet", name, batch_size=1) for name in ("K-FAC", "momentum")
    )
    assert kfac.executed_operations() > 1.5 * momentum.executed_operations() > 0


def test_slowest_steps_are_compared_with_the_median():
    """Two blocks of K-FAC, of which the second takes twice as long."""
    kfac = [0.29, *[0.19] * (AVERAGE_EVERY - 1)]
    kfac += [2 * second for second in kfac]
    median = (0.29 + 0.38) / 2
    expected = f"{0.58 / median:.2f} with averages, {0.38 / median:.2f} without"
    assert benchmark.slowest(kfac) == expected
    times = {"momentum": [0.1, 0.1], "K-FAC": [0.2, 0.4]}
    *_, line = benchmark.time_lines({"resnet20": times}, {"resnet20": expected})
    cells = ["resnet20", "100.0 [100.0, 100.0]", "300.0 [200.0, 400.0]", "3.00 [2.00, 4.00]"]
    assert line == harness.markdown_row([*cells, expected])


def test_each_step_of_a_stepwise_program_is_noted():
    times = iter([0.25, 0.75, 0.5])
    program = benchmark.Stepwise(SimpleNamespace(run=lambda steps: next(times)))
    assert program.run(2) == 0.5
    assert program.run(1) == 0.5
    assert program.seconds == [0.25, 0.75, 0.5]
