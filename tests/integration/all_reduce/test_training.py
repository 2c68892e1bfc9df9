"""Workers without parameter servers: n workers with N towers train as one tower does."""

import functools
import os

import numpy as np
import pytest
import tensorflow as tf

import replicate

v1 = tf.compat.v1


def test_workers_with_towers_equal_one_tower(workers, tmp_path):
    expected = workers.train(
        workers.model(), workers.parts(0, 12)[0], tmp_path / "one", max_steps=6
    )
    found = workers.train_together(
        workers.model(),
        workers.parts(0, 8, 12),
        tmp_path / "many",
        settings=replicate.AllReduce(timeout_secs=10, check_every=3, pack_bytes=64),
        devices=workers.TOWERS,
        uneven="weighted",
        max_steps=6,
    )
    workers.assert_close(workers.only(found), expected)


def growing_scale():
    return replicate.DynamicLossScale(initial=3e38, growth_steps=3)


@pytest.mark.parametrize(
    "settings",
    [
        {"clip_norm": 0.5, "loss_scale": growing_scale(), "accumulate_steps": 2},
        {"skip_nonfinite": 2},
        pytest.param({"loss_scale": growing_scale()}, marks=pytest.mark.broad),
    ],
    ids=" and ".join,
)
def test_stages_of_an_update_decide_alike_on_all_workers(workers, tmp_path, own_log, settings):
    """The loss scale overflows at first; with skip_nonfinite, one worker meets a NaN."""
    model_fn = workers.model(lambda: v1.train.AdamOptimizer(0.01), **settings)

    def input_fn(start, stop):
        features, labels = workers.rows(start, stop)
        batches = tf.data.Dataset.from_tensors((features, labels)).repeat()
        if "skip_nonfinite" not in settings:
            return batches
        bad = np.where(np.arange(start, stop)[:, None] == 9, np.nan, labels).astype(np.float32)
        spoilt = tf.data.Dataset.from_tensors((features, bad))
        return batches.take(2).concatenate(spoilt).concatenate(batches)

    expected = workers.train(model_fn, lambda: input_fn(0, 12), tmp_path / "one", max_steps=5)
    own_log.clear()
    inputs = [lambda: input_fn(0, 8), lambda: input_fn(8, 12)]
    found = workers.train_together(model_fn, inputs, tmp_path / "many", max_steps=5)
    found = workers.only(found)
    if "accumulate_steps" in settings:
        kept = [name for name in expected if name.startswith("gradient_accumulation/")]
        assert len(kept) == 4, "a count and three totals, which workers keep for themselves"
        for name in kept:
            del expected[name]
    workers.assert_close(found, expected)
    assert all(value for name, value in found.items() if "skipped_steps" in name)
    if "skip_nonfinite" in settings:
        told = [each for each in own_log.messages if "Skipped a batch" in each]
        assert len(told) == 2
        assert "On worker 0 at '127.0.0.1:" in told[0]


def test_a_step_whose_batches_are_all_empty_does_not_end_training(workers, tmp_path):
    """It is a step on an empty batch, as in one process; in another step one batch is empty."""

    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        loss = v1.losses.mean_squared_error(labels, tf.matmul(features["x"], kernel))
        optimizer = v1.train.MomentumOptimizer(0.02, 0.9)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn(*bounds):
        batches = [tf.data.Dataset.from_tensors(workers.rows(*pair)) for pair in bounds]
        return functools.reduce(lambda found, batch: found.concatenate(batch), batches)

    def train(train, inputs, folder):
        return train(model_fn, inputs, tmp_path / folder, devices=None, max_steps=None)

    whole, first, second = [(0, 12), (0, 0), (0, 4)], [(0, 4), (0, 0), (0, 4)], [(4, 12), (0, 0)]
    expected = train(workers.train, lambda: input_fn(*whole), "one")
    inputs = [lambda: input_fn(*first), lambda: input_fn(*second, (0, 0))]
    found = workers.only(train(workers.train_together, inputs, "many"))
    assert found["global_step"] == 3
    workers.assert_close(found, expected)


def test_losses_that_are_sums_are_summed_over_workers(workers, tmp_path):
    """The gradients of the workers add up without a division."""

    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        loss = tf.reduce_sum(tf.square(tf.matmul(features["x"], kernel) - labels))
        optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.001))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    expected = workers.train(model_fn, workers.parts(0, 12)[0], tmp_path / "one")
    inputs, sums = workers.parts(0, 7, 12), v1.losses.Reduction.SUM
    found = workers.train_together(model_fn, inputs, tmp_path / "many", loss_reduction=sums)
    workers.assert_close(workers.only(found), expected)


def test_worker_whose_input_ends_waits_for_the_others_without_weight(workers, tmp_path):
    """Two batches on one worker and four on the other: all workers make four steps."""
    bounds = [[(0, 4), (4, 6)], [(6, 9), (9, 11), (0, 3), (2, 6)]]

    def batches(indices):
        features, labels = workers.rows(0, 12)
        batches = [
            ({name: values[rows] for name, values in features.items()}, labels[rows])
            for rows in indices
        ]
        datasets = map(tf.data.Dataset.from_tensors, batches)
        return functools.reduce(tf.data.Dataset.concatenate, datasets)

    first, second = ([np.arange(*each) for each in pairs] for pairs in bounds)
    whole = [np.concatenate(pair) for pair in zip(first, second, strict=False)]
    whole += second[len(first) :]
    model_fn = workers.model()
    expected = workers.train(model_fn, lambda: batches(whole), tmp_path / "one", max_steps=None)
    inputs = [lambda: batches(first), lambda: batches(second)]
    found = workers.train_together(model_fn, inputs, tmp_path / "many", max_steps=None)
    assert workers.only(found)["global_step"] == len(second)
    workers.assert_close(found[0], expected)


@pytest.mark.parametrize(
    ("accumulate_steps", "expected"),
    [(3, [3, 3, 4]), pytest.param(1, [3], marks=pytest.mark.broad)],
)
def test_gradients_are_sent_once_in_an_update(workers, tmp_path, accumulate_steps, expected):
    """Collectives of each step by its trace: reports and loss in all; then gradients or agreement.

    In the step of the update of accumulated gradients there are both.
    """
    received = []

    class Count(v1.train.SessionRunHook):
        def __init__(self, role):
            self._counts = role.task_type == "chief"

        def before_run(self, run_context):
            options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
            return v1.train.SessionRunArgs(v1.train.get_global_step(), options=options)

        def after_run(self, run_context, run_values):
            devices = run_values.run_metadata.step_stats.dev_stats
            nodes = [node.node_name for device in devices for node in device.node_stats]
            if self._counts:
                received.append(nodes.count("RecvBuf"))

    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        loss = v1.losses.mean_squared_error(labels, tf.matmul(features["x"], kernel))
        optimizer = replicate.TowerOptimizer(
            v1.train.GradientDescentOptimizer(0.01), accumulate_steps=accumulate_steps
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    inputs = workers.parts(0, 6, 12)
    workers.only(workers.train_together(model_fn, inputs, tmp_path, hook=Count, max_steps=2))
    assert received == expected * 2


def test_hook_of_one_worker_ends_all_workers_after_the_next_step(workers, tmp_path):
    class Stop(v1.train.SessionRunHook):
        def __init__(self, role):
            self._left = 3 if role.task_type == "worker" else 1000

        def after_run(self, run_context, run_values):
            self._left -= 1
            if not self._left:
                run_context.request_stop()

    found = workers.train_together(
        workers.model(), workers.parts(0, 6, 12), tmp_path, hook=Stop, max_steps=None
    )
    assert workers.only(found)["global_step"] == 4


@pytest.mark.parametrize("stop", ["function", "step"])
def test_hooks_that_stop_early_end_all_workers_alike(workers, tmp_path, stop):
    model_fn, asked = workers.model(), []

    def hook(role):
        estimator = workers.estimator(model_fn, tmp_path, role)
        if stop == "step":
            return replicate.make_stop_at_checkpoint_step_hook(estimator, 3)
        every_step = {"run_every_secs": None, "run_every_steps": 1}
        should_stop = lambda: asked.append(role.task_type) or len(asked) == 3  # noqa: E731
        return replicate.make_early_stopping_hook(estimator, should_stop, **every_step)

    inputs = workers.parts(0, 6, 12)
    found = workers.train_together(model_fn, inputs, tmp_path, hook=hook, max_steps=None)
    assert workers.only(found)["global_step"] == 4, "all have learnt it one step later"
    assert set(asked) <= {"chief"}


def test_training_goes_on_with_another_number_of_workers(workers, tmp_path):
    """One process, then two workers, then one process: as one in one go, checkpoints included.

    Checkpoints of workers have no accumulated gradients, which begin at zero in the next update.
    """
    model_fn, folder = workers.model(accumulate_steps=2), tmp_path / "many"
    [whole] = workers.parts(0, 12)
    expected = workers.train(model_fn, whole, tmp_path / "one", max_steps=6)
    workers.train(model_fn, whole, folder, max_steps=2)
    inputs = workers.parts(0, 8, 12)
    workers.only(workers.train_together(model_fn, inputs, folder, max_steps=4))
    found = workers.train(model_fn, whole, folder, max_steps=6)
    del found["gradient_accumulation/steps"], expected["gradient_accumulation/steps"]
    workers.assert_close(found, expected)


def plain_model_fn(features, labels, mode):
    """A program of 2018: an optimizer that nobody wrapped."""
    kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
    loss = v1.losses.mean_squared_error(labels, tf.matmul(features["x"], kernel))
    optimizer = v1.train.GradientDescentOptimizer(0.01)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_programs_without_towers_need_no_changes(workers, tmp_path, monkeypatch):
    """A strategy of TensorFlow stands for `AllReduce()`."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with tf.Graph().as_default():
        strategy = v1.distribute.experimental.MultiWorkerMirroredStrategy()
    expected = workers.train(plain_model_fn, workers.parts(0, 12)[0], tmp_path / "one")
    found = workers.train_together(
        plain_model_fn, workers.parts(0, 6, 12), tmp_path / "many", settings=strategy, devices=None
    )
    workers.assert_close(workers.only(found), expected)


def test_optimizers_that_cannot_reduce_are_refused(workers, tmp_path):
    def sync():
        return v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 2)

    [role, _], [whole] = workers.new(2), workers.parts(0, 12)
    with pytest.raises(ValueError, match=r"Cannot train with AllReduce: no optimizer of tf\.comp"):
        workers.train(plain_model_fn, whole, tmp_path, role)
    with pytest.raises(ValueError, match="cannot wrap a SyncReplicasOptimizer with train_distri"):
        workers.train(workers.model(sync), whole, tmp_path, role)


def test_steps_and_calls_leave_no_threads(workers, tmp_path):
    """A collective with a time limit of its own has a thread that sleeps until that is over."""

    def threads_after(max_steps):
        inputs = workers.parts(0, 6, 12)
        found = workers.train_together(workers.model(), inputs, tmp_path, max_steps=max_steps)
        workers.only(found)
        return len(os.listdir("/proc/self/task"))

    threads_after(5)  # Threads of the servers' pools are started when they are needed.
    before = threads_after(10)
    assert threads_after(26) - before < 15
