"""Workers that train apart and meet in rounds, against NumPy and against sums in every step."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

import replicate

v1 = tf.compat.v1

RATE = 0.02


def rounds(every, outer=None, **others):
    return replicate.AllReduce(
        timeout_secs=10, check_every=1, every=every, outer_optimizer=outer, **others
    )


def linear(optimizer):
    """Returns a model_fn of linear regression, with an average that each batch updates."""

    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        outputs = tf.matmul(features["x"], kernel)
        average = v1.get_variable("average", initializer=0.0, trainable=False)
        fold = v1.assign_sub(average, 0.1 * (average - tf.reduce_mean(outputs)))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, fold)
        loss = tf.reduce_mean(tf.square(outputs - labels))
        train_op = replicate.TowerOptimizer(optimizer).minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


class Reference:
    """Rounds of linear regression in NumPy.

    `outer` returns the new weights from the old ones and the mean change. `momentum` is that of the
    inner optimizer, whose slots stay with their workers.
    """

    def __init__(self, outer, momentum=0.0):
        self.kernel, self.average = np.full([5, 1], 0.1), 0.0
        self._outer = outer
        self._momentum = momentum
        self._slots = {}

    def round(self, batches):
        """`batches` are the (x, y) of each step of each worker."""
        rows = np.array([sum(len(x) for x, _ in steps) for steps in batches])
        ends = [self._local_steps(rank, steps) for rank, steps in enumerate(batches)]
        shares = rows / rows.sum()
        change = sum(
            share * (self.kernel - end[0]) for share, end in zip(shares, ends, strict=True)
        )
        self.kernel = self._outer(self.kernel, change)
        self.average = sum(share * end[1] for share, end in zip(shares, ends, strict=True))

    def _local_steps(self, rank, steps):
        kernel, average, slot = self.kernel, self.average, self._slots.get(rank, 0.0)
        for x, y in steps:
            outputs = x @ kernel
            average -= 0.1 * (average - outputs.mean())
            slot = self._momentum * slot + 2 * x.T @ (outputs - y) / len(x)
            kernel = kernel - RATE * slot
        self._slots[rank] = slot
        return kernel, average


def averaging(kernel, change):
    return kernel - change


def nesterov(rate, momentum):
    slots = [0.0]

    def step(kernel, change):
        slots[0] = momentum * slots[0] + change
        return kernel - rate * (change + momentum * slots[0])

    return step


CASES = {
    "default": (None, nesterov(0.7, 0.9), 0.0),
    "averaging": (v1.train.GradientDescentOptimizer(1.0), averaging, 0.9),
    "momentum": (
        lambda: v1.train.MomentumOptimizer(0.5, 0.8, use_nesterov=True),
        nesterov(0.5, 0.8),
        0.5,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_five_rounds_equal_numpy(workers, tmp_path, case):
    """Workers of 8 and 4 rows with two towers each. The last of five rounds has two steps."""
    outer, outer_step, momentum = CASES[case]
    reference, bounds = Reference(outer_step, momentum), (0, 8, 12)
    parts = [(workers.X[a:b], workers.Y[a:b]) for a, b in itertools.pairwise(bounds)]
    for length in (3, 3, 3, 3, 2):
        reference.round([[part] * length for part in parts])
    found = workers.train_together(
        linear(lambda: v1.train.MomentumOptimizer(RATE, momentum)),
        workers.parts(*bounds),
        tmp_path,
        settings=rounds(3, outer, pack_bytes=8),
        devices=workers.TOWERS,
        uneven="weighted",
        max_steps=14,
    )
    for values in found:
        workers.assert_close(
            {name: values[name] for name in ("kernel", "average", "global_step")},
            {"kernel": reference.kernel, "average": reference.average, "global_step": 14},
        )
    np.testing.assert_array_equal(found[0]["kernel"], found[1]["kernel"])
    slots = [values["kernel/Momentum"] for values in found]
    assert np.abs(slots[0] - slots[1]).max() > 1e-3, "inner slots stay those of each worker"
    assert ("outer/kernel/Momentum" in found[0]) == (case != "averaging")


def test_a_round_after_every_step_equals_sums_of_gradients(workers, tmp_path):
    """With plain averaging outside and gradient descent inside; a sparse gradient among others."""
    model_fn = workers.model(lambda: v1.train.GradientDescentOptimizer(0.002))
    inputs, outer = (
        workers.parts(0, 8, 12),
        functools.partial(v1.train.GradientDescentOptimizer, 1.0),
    )
    together = functools.partial(workers.train_together, model_fn, inputs, max_steps=4)
    expected = workers.only(together(tmp_path / "sums"))
    found = workers.only(together(tmp_path / "rounds", settings=rounds(1, outer)))
    assert found.pop("outer/bytes_sent") > 0
    workers.assert_close(found, expected)


def test_resumed_rounds_are_equal_to_the_bit(workers, tmp_path):
    """Saves wait for rounds. Each worker saves its inner slots and the rests of what it sent."""
    model_fn = linear(lambda: v1.train.MomentumOptimizer(RATE, 0.9))
    inputs = workers.parts(0, 8, 12)
    together = functools.partial(
        workers.train_together,
        model_fn,
        inputs,
        settings=rounds(3, bits=8),
        save_checkpoints_steps=2,
    )
    whole = together(tmp_path / "whole", max_steps=9)
    together(tmp_path / "parts", max_steps=6)
    found = together(tmp_path / "parts", max_steps=9)
    np.testing.assert_equal(found, whole)
    for name in ("kernel/Momentum", "outer/kernel/rest"):
        assert (found[0][name] != found[1][name]).any()
    saved = {path.name for path in (tmp_path / "whole").rglob("*.index")}
    assert saved == {f"model.ckpt-{step}.index" for step in (0, 3, 6, 9)}
    own = (tmp_path / "parts" / "worker_state" / "1_of_2").glob("*.index")
    assert {path.name for path in own} == saved - {"model.ckpt-0.index"}


@pytest.mark.parametrize("bits", [4, pytest.param(16, marks=pytest.mark.broad)])
def test_few_bits_and_their_rests_add_up_to_all_changes(workers, tmp_path, bits):
    """A constant gradient, so that the changes do not depend on what was lost before."""
    columns = np.linspace(-1.0, 1.0, 150, dtype=np.float32)

    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 150], initializer=v1.zeros_initializer())
        outputs = tf.linalg.matvec(tf.matmul(features["x"], kernel), columns)
        optimizer = v1.train.GradientDescentOptimizer(1.0)
        loss = tf.reduce_mean(outputs)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    outer = v1.train.GradientDescentOptimizer(1.0)
    found = workers.train_together(
        model_fn,
        workers.parts(0, 8, 12),
        tmp_path,
        settings=rounds(2, outer, bits=bits),
        max_steps=10,
    )
    expected = -10 * np.outer(workers.X.mean(axis=0), columns)
    kernel, rests = found[0]["kernel"], sum(each["outer/kernel/rest"] for each in found)
    np.testing.assert_array_equal(found[1]["kernel"], kernel)
    np.testing.assert_allclose(kernel - rests, expected, atol=1e-5)
    assert 0 < np.abs(kernel - expected).max() < np.abs(expected).max() / (5 if bits == 4 else 50)
    # Each worker has a half of 512 values, and sends reports of five numbers.
    words = 512 * bits // 32 + (2 if bits == 4 else 0)
    assert found[0]["outer/bytes_sent"] == 5 * (2 * 4 * words + 2 * 5 * 8)


def test_a_worker_whose_input_has_ended_meets_the_others(workers, tmp_path):
    """Two batches on the chief and seven on the other worker, with rounds every three steps."""
    parts = [(workers.X[a:b], workers.Y[a:b]) for a, b in ((0, 8), (8, 12))]
    reference = Reference(nesterov(0.7, 0.9))
    for steps in ((2, 3), (0, 3), (0, 1)):
        reference.round([[part] * count for part, count in zip(parts, steps, strict=True)])
    first, second = workers.parts(0, 8, 12)
    found = workers.train_together(
        linear(lambda: v1.train.GradientDescentOptimizer(RATE)),
        [lambda: first().take(2), lambda: second().take(7)],
        tmp_path,
        settings=rounds(3),
        max_steps=None,
    )
    found = workers.only(found)
    assert found["global_step"] == 7
    np.testing.assert_allclose(found["kernel"], reference.kernel, rtol=1e-5)


def test_a_hook_of_one_worker_ends_all_in_the_next_round(workers, tmp_path):
    class Stop(v1.train.SessionRunHook):
        def __init__(self, role):
            self._left = 2 if role.task_type == "worker" else 1000

        def after_run(self, run_context, run_values):
            self._left -= 1
            if not self._left:
                run_context.request_stop()

    found = workers.train_together(
        linear(lambda: v1.train.GradientDescentOptimizer(RATE)),
        workers.parts(0, 6, 12),
        tmp_path,
        hook=Stop,
        settings=rounds(4),
        devices=None,
        max_steps=None,
    )
    assert workers.only(found)["global_step"] == 4
