"""Workers that train apart and meet in rounds, against NumPy and against sums in every step."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.all_reduce.worker_rounds import WorkerRounds
from replicate.estimator.checkpoints.hand_over import HandOver

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
}


@pytest.fixture
def equal_after_rounds(monkeypatch):
    """After each round of a worker, True if it says that all have the same weights."""
    found, exchange = [], WorkerRounds.exchange

    def recorded(self, *arguments):
        exchange(self, *arguments)
        found.append(self.are_equal)

    monkeypatch.setattr(WorkerRounds, "exchange", recorded)
    return found


@pytest.mark.parametrize("case", CASES)
def test_five_rounds_equal_numpy(workers, tmp_path, equal_after_rounds, case):
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
    assert equal_after_rounds == [True] * 10
    slots = [values["kernel/Momentum"] for values in found]
    assert np.abs(slots[0] - slots[1]).max() > 1e-3, "inner slots stay those of each worker"
    assert ("outer/kernel/Momentum" in found[0]) == (case != "averaging")


def in_parts(features, labels, mode):
    """A model_fn as `linear`, with a kernel in three variables."""
    starts = v1.constant_initializer(0.1)
    parts = [v1.get_variable(name, [len(rows), 1], initializer=starts) for name, rows in ROWS]
    outputs = tf.matmul(features["x"], tf.concat(parts, axis=0))
    average = v1.get_variable("average", initializer=0.0, trainable=False)
    fold = v1.assign_sub(average, 0.1 * (average - tf.reduce_mean(outputs)))
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, fold)
    loss = tf.reduce_mean(tf.square(outputs - labels))
    optimizer = replicate.TowerOptimizer(lambda: v1.train.MomentumOptimizer(RATE, 0.9))
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


ROWS = (("a", (0, 1)), ("b", (2, 3)), ("c", (4,)))


class FragmentReference:
    """Streaming rounds of `in_parts` by equal batches in NumPy: five weights, and an average.

    Fragments are the entries of the vector that each has.
    """

    def __init__(self, every, fragments, delay, mixing, parts):
        self._every, self._delay, self._mixing, self._parts = every, delay, mixing, parts
        self._fragments = [np.array(entries) for entries in fragments]
        self._shares = np.array([len(x) for x, _ in parts]) / sum(len(x) for x, _ in parts)
        self.workers = np.tile(np.r_[np.full(5, 0.1), 0.0], (2, 1))
        self._centers, self._outer = self.workers[0].copy(), np.zeros(6)
        self._slots, self._waiting = np.zeros((2, 5)), []

    def train(self, steps, has_input):
        """A run whose input ends learns of it after the rounds of its last step."""
        for step in range(1, steps + 1):
            self._local_step()
            for start, entries, mean in list(self._waiting):
                if start + self._delay == step:
                    self._waiting.pop(0)
                    self._take(entries, mean, self._mixing)
            due = [entries for p, entries in enumerate(self._fragments) if self._is_due(p, step)]
            for entries in due if step < steps or not has_input else []:
                if self._delay:
                    self._waiting.append((step, entries, self._mean(entries)))
                else:
                    self._take(entries, self._mean(entries), 0.0)
        for start, entries, mean in self._waiting:
            self._take(entries, mean, self._mixing if start < steps else 0.0)
        for entries in self._fragments:
            if has_input or all(entries is not each for each in due):
                self._take(entries, self._mean(entries), 0.0)

    def _is_due(self, p, step):
        return (step - (p + 1) * self._every // len(self._fragments)) % self._every == 0

    def _local_step(self):
        for rank, (x, y) in enumerate(self._parts):
            kernel = self.workers[rank, :5]
            errors = x @ kernel - y[:, 0]
            self.workers[rank, 5] -= 0.1 * (self.workers[rank, 5] - (x @ kernel).mean())
            self._slots[rank] = 0.9 * self._slots[rank] + 2 * x.T @ errors / len(x)
            self.workers[rank, :5] -= RATE * self._slots[rank]

    def _mean(self, entries):
        return self._shares @ self.workers[:, entries]

    def _take(self, entries, mean, mixing):
        weights = entries < 5
        change = np.where(weights, self._centers[entries] - mean, 0.0)
        self._outer[entries] = 0.9 * self._outer[entries] + change
        moved = self._centers[entries] - 0.7 * (change + 0.9 * self._outer[entries])
        self._centers[entries] = np.where(weights, moved, mean)
        local = self.workers[:, entries]
        self.workers[:, entries] = mixing * local + (1 - mixing) * self._centers[entries]


@pytest.fixture
def handed_over(monkeypatch):
    """Steps of the copies that workers have made for others."""
    found, take = [], HandOver.take

    def recorded(self, session):
        take(self, session)
        found.append(int(session.run(self._step)))

    monkeypatch.setattr(HandOver, "take", recorded)
    return found


FRAGMENTS = {1: [range(6)], 2: [(0, 1, 4, 5), (2, 3)], 3: [(0, 1, 5), (2, 3), (4,)]}


@pytest.mark.parametrize(
    ("fragments", "delay", "mixing", "has_input"),
    [
        (3, 0, 0.5, True),
        (1, 2, 0.0, False),
        pytest.param(2, 1, 0.5, False, marks=pytest.mark.broad),
        (3, 2, 0.25, True),
    ],
)
def test_fragments_and_delays_equal_numpy(
    workers, tmp_path, handed_over, fragments, delay, mixing, has_input
):
    """Five rounds of each fragment, then one of all; with a delay of 2, up to three at once.

    Every worker has a copy for the others from after each step at which no sums are on the way.
    """
    steps = 16 if has_input else 15
    parts = [(workers.X[a:b], workers.Y[a:b]) for a, b in ((0, 8), (8, 12))]
    reference = FragmentReference(3, FRAGMENTS[fragments], delay, mixing, parts)
    reference.train(steps, has_input)
    inputs = workers.parts(0, 8, 12)
    found = workers.train_together(
        in_parts,
        inputs if has_input else [lambda each=each: each().take(steps) for each in inputs],
        tmp_path,
        settings=rounds(3, fragments=fragments, delay=delay, mixing=mixing, min_workers=1),
        devices=workers.TOWERS,
        uneven="weighted",
        max_steps=steps if has_input else None,
    )
    for values, expected in zip(found, reference.workers, strict=True):
        weights = np.concatenate([values[name].ravel() for name in ("a", "b", "c", "average")])
        np.testing.assert_allclose(weights, expected, rtol=2e-5)
    if delay == 0 or fragments == 1:
        surely = range(steps) if delay == 0 else range(3 + delay, steps, 3)
        assert all(handed_over.count(step) == 2 for step in surely), handed_over
    for name in ("a", "b", "c", "average"):
        np.testing.assert_array_equal(found[0][name], found[1][name])


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


@pytest.mark.parametrize(
    ("streaming", "steps"),
    [({}, [0, 3, 6, 9]), ({"fragments": 3, "delay": 2}, [0, 2, 4, 6, 8, 9])],
)
def test_resumed_rounds_are_equal_to_the_bit(workers, tmp_path, streaming, steps):
    """Saves wait for rounds. Each worker saves its inner slots, and the rests of what it sent.

    With fragments, sums that were not taken yet are saved, too.
    """
    together = functools.partial(
        workers.train_together,
        in_parts,
        workers.parts(0, 8, 12),
        tmp_path,
        settings=rounds(3, bits=8, **streaming),
        save_checkpoints_steps=2,
        max_steps=9,
    )
    whole = together()
    own = (tmp_path / "worker_state" / "1_of_2").glob("*.index")
    assert {path.name for path in own} == {f"model.ckpt-{step}.index" for step in steps[1:]}
    for name in ("a/Momentum", "outer/a/rest"):
        assert (whole[0][name] != whole[1][name]).any()
    paths = [str(tmp_path / f"model.ckpt-{step}") for step in steps if step <= 6]
    v1.train.update_checkpoint_state(str(tmp_path), paths[-1], paths)
    np.testing.assert_equal(together(), whole)


@pytest.mark.parametrize(
    "changed",
    [
        {"bits": 4, "fragments": 3},
        {"bits": 16},
        pytest.param({"bits": 32, "fragments": 3, "delay": 1}, marks=pytest.mark.broad),
        pytest.param({"bits": 8, "fragments": 2, "delay": 2}, marks=pytest.mark.broad),
    ],
    ids=str,
)
def test_a_run_goes_on_with_other_settings_of_rounds(workers, tmp_path, changed):
    """From a step at which sums were not taken yet, and back."""
    before, sent = {"bits": 8, "fragments": 3, "delay": 2}, 0
    for steps, given in ((9, before), (12, changed), (15, before)):
        found = workers.train_together(
            in_parts,
            workers.parts(0, 8, 12),
            tmp_path,
            settings=rounds(3, **given),
            save_checkpoints_steps=2,
            max_steps=steps,
        )
        names = ("a", "b", "c", "global_step", "outer/bytes_sent")
        whole = workers.only([{name: each[name] for name in names} for each in found])
        assert whole["global_step"] == steps
        assert whole["outer/bytes_sent"] > 0.8 * sent, "it counts on from the checkpoint"
        sent = whole["outer/bytes_sent"]
        if steps == 9:
            paths = [str(tmp_path / f"model.ckpt-{step}") for step in (0, 2, 4, 6, 8)]
            v1.train.update_checkpoint_state(str(tmp_path), paths[-1], paths)


@pytest.mark.parametrize("bits", [4, pytest.param(16, marks=pytest.mark.broad)])
def test_few_bits_and_their_rests_add_up_to_all_changes(workers, tmp_path, bits):
    """A constant gradient, so that the changes do not depend on what was lost before.

    The weights are a variable of TensorFlow 1.
    """
    columns = np.linspace(-1.0, 1.0, 150, dtype=np.float32)

    def model_fn(features, labels, mode):
        zeros = v1.zeros_initializer()
        kernel = v1.get_variable("kernel", [5, 150], initializer=zeros, use_resource=False)
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
    more = workers.train_together(
        model_fn,
        workers.parts(0, 3, 9, 12),
        tmp_path,
        settings=rounds(2, outer, bits=bits),
        max_steps=20,
    )
    left = more[0]["kernel"] - sum(each["outer/kernel/rest"] for each in more)
    lost = found[1]["outer/kernel/rest"]  # The chief's rest counts once, by whatever number.
    np.testing.assert_allclose(left, 2 * expected + lost, atol=2e-5)


def test_a_worker_whose_input_has_ended_meets_the_others(workers, tmp_path, handed_over):
    """Two batches on the chief and ten on the other worker, with rounds every three steps.

    The chief still saves, and keeps what it would hand over.
    """
    parts = [(workers.X[a:b], workers.Y[a:b]) for a, b in ((0, 8), (8, 12))]
    reference = Reference(nesterov(0.7, 0.9))
    for steps in ((2, 3), (0, 3), (0, 3), (0, 1)):
        reference.round([[part] * count for part, count in zip(parts, steps, strict=True)])
    first, second = workers.parts(0, 8, 12)
    found = workers.train_together(
        linear(lambda: v1.train.GradientDescentOptimizer(RATE)),
        [lambda: first().take(2), lambda: second().take(10)],
        tmp_path,
        settings=rounds(3, min_workers=1),
        save_checkpoints_steps=2,
        max_steps=None,
    )
    assert all(handed_over.count(step) >= 2 for step in (3, 6, 9)), handed_over
    saved = {path.stem for path in tmp_path.glob("model.ckpt-*.index")}
    assert saved == {f"model.ckpt-{step}" for step in (0, 3, 9, 10)}
    found = workers.only(found)
    assert found["global_step"] == 10
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
