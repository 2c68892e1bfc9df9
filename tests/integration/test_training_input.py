"""The input of calls of train: begun anew after the end of a call, gone on with after less."""

import signal

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator import EvalSpec, TrainingInterrupted, TrainSpec, train_and_evaluate
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1


def assert_identical(found, expected):
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def fail_at_6(step):
    if step == 6:
        raise ZeroDivisionError(step)


def send_sigterm_at_6(step):
    if step == 6:
        signal.raise_signal(signal.SIGTERM)


def interrupt(linear, estimator, input_fn, how=fail_at_6):
    """Trains to step 6. The last checkpoint is that of step 5; after a signal, that of step 6."""
    with pytest.raises((ZeroDivisionError, TrainingInterrupted)):
        estimator.train(input_fn, hooks=[linear.CallHook(how)])


def test_interrupted_call_goes_on_bit_for_bit(linear, tmp_path):
    def input_fn():
        rows = tf.data.Dataset.from_tensor_slices((linear.X, linear.Y))
        return rows.cache().shuffle(linear.ROWS).repeat().batch(linear.BATCH)

    whole = linear.make_estimator(tmp_path / "whole")
    whole.train(input_fn, max_steps=13)
    for how in (fail_at_6, send_sigterm_at_6):
        parts = linear.make_estimator(tmp_path / how.__name__)
        interrupt(linear, parts, input_fn, how)
        parts.train(input_fn, max_steps=13)
        assert_identical(linear.values(parts), linear.values(whole))


def counting_model_fn(features, labels, mode, params):
    """Counts how often each row comes, for each day on its own."""
    seen = v1.get_variable("seen", [2, 30], initializer=v1.zeros_initializer())
    rows = tf.reduce_sum(tf.one_hot(features, 30), axis=0)
    counted = seen.assign_add(tf.scatter_nd([[params.get("day", 0)]], [rows], [2, 30]))
    with tf.control_dependencies([counted]):
        train_op = v1.train.get_global_step().assign_add(1)
    return EstimatorSpec(mode, loss=tf.constant(0.0), train_op=train_op)


def day(number, rows=24):
    return lambda: tf.data.Dataset.range(rows).shuffle(rows, seed=number).batch(4)


def test_each_call_trains_on_all_of_its_data(linear, tmp_path):
    """As with tf.estimator, which makes 6, 12, 18 steps in this loop."""
    estimator = linear.make_estimator(tmp_path, counting_model_fn)
    reached = [estimator.train(day(1)).get_variable_value("global_step").item() for _ in range(3)]
    assert reached == [6, 12, 18]
    np.testing.assert_array_equal(estimator.get_variable_value("seen")[0, :24], 3)
    other = linear.make_estimator(tmp_path, counting_model_fn, {"day": 1}).train(day(2, rows=30))
    assert other.get_variable_value("global_step") == 18 + 8
    np.testing.assert_array_equal(other.get_variable_value("seen")[1], 1)


def test_training_reads_on_between_evaluations(linear, tmp_path):
    evaluated = []
    estimator = linear.make_estimator(tmp_path, counting_model_fn, save_checkpoints_steps=2)
    hook = linear.CallHook(evaluated.append)
    train_and_evaluate(
        estimator,
        TrainSpec(day(1), max_steps=10),
        EvalSpec(day(2), steps=1, hooks=[hook], throttle_secs=0, start_delay_secs=0),
    )
    assert estimator.get_variable_value("global_step") == 6
    np.testing.assert_array_equal(estimator.get_variable_value("seen")[0, :24], 1)
    assert len(evaluated) >= 3


def test_hook_that_asks_for_the_end_ends_the_input_too(linear, tmp_path):
    def stop(step):
        if step == 5:
            hook.context.request_stop()

    class Hook(linear.CallHook):
        def after_run(self, run_context, run_values):
            self.context = run_context
            super().after_run(run_context, run_values)

    hook = Hook(stop)
    linear.make_estimator(tmp_path).train(linear.input_fn, hooks=[hook])
    assert not (tmp_path / "model.ckpt-5.input_position").exists()


def test_interrupted_run_with_another_batch_size_begins_its_input_anew(linear, tmp_path, caplog):
    estimator = linear.make_estimator(tmp_path, counting_model_fn)
    interrupt(linear, estimator, lambda: day(1)().repeat(2))
    estimator.train(lambda: tf.data.Dataset.range(24).shuffle(24, seed=1).batch(6).repeat(2))
    assert estimator.get_variable_value("global_step") == 5 + 8
    assert caplog.text.count("batch_size of BatchDatasetV2 4 -> 6") == 1


def test_continued_calls_equal_one_call_and_begin_anew_at_the_end_of_the_input(linear, tmp_path):
    whole = linear.make_estimator(tmp_path / "whole")
    whole.train(linear.shuffled_input_fn, max_steps=13)
    parts = linear.make_estimator(tmp_path / "parts", continue_input=True)
    for steps in (4, 9, 13):
        parts.train(linear.shuffled_input_fn, max_steps=steps)
    assert_identical(linear.values(parts), linear.values(whole))
    ending = linear.make_estimator(tmp_path / "ending", continue_input=True)
    reached = [
        ending.train(linear.once_input_fn, steps=2).get_variable_value("global_step").item()
        for _ in range(4)
    ]
    assert reached == [2, 3, 5, 6]


def test_position_in_an_old_checkpoint_is_ignored(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path).train(linear.input_fn, steps=1)
    path = estimator.latest_checkpoint()
    with tf.Graph().as_default(), v1.Session() as session:
        values = {**linear.values(estimator), "input_pipeline/IteratorV2:0_STATE": b"state"}
        saver = v1.train.Saver({name: tf.Variable(value) for name, value in values.items()})
        session.run(v1.global_variables_initializer())
        saver.save(session, path, write_meta_graph=False)
    assert estimator.train(linear.input_fn, steps=1).get_variable_value("global_step") == 2


KILLED = """
def tell(step):
    print(step, flush=True)
    if step == 13:
        signal.pause()
estimator = linear.make_estimator(sys.argv[2])
estimator.train(linear.shuffled_input_fn, max_steps=20, hooks=[linear.CallHook(tell)])
"""


def test_kill_and_resume_is_bit_identical(linear, stub, tmp_path):
    whole = linear.make_estimator(tmp_path / "whole")
    whole.train(linear.shuffled_input_fn, max_steps=20)
    child = stub(KILLED, tmp_path / "killed")
    while child.stdout.readline() != "13\n":
        assert child.poll() is None, child.stderr.read()
    child.kill()
    child.wait(timeout=10)
    resumed = linear.make_estimator(tmp_path / "killed")
    assert resumed.latest_checkpoint().endswith("-10")
    (tmp_path / "killed" / "model.ckpt-15_temp").mkdir()
    resumed.train(linear.shuffled_input_fn, max_steps=20)
    assert_identical(linear.values(resumed), linear.values(whole))
    assert not (tmp_path / "killed" / "model.ckpt-15_temp").exists()


def test_data_stay_out_of_checkpoints(linear, tmp_path):
    images = np.zeros([20_000, 28, 28], np.uint8)

    def input_fn():
        rows = tf.data.Dataset.from_tensor_slices(images).cache().shuffle(50_000).batch(100)
        return rows.map(lambda x: tf.cast(x[:, 0, 0], tf.int32))

    estimator = linear.make_estimator(tmp_path, counting_model_fn)
    interrupt(linear, estimator, input_fn)
    assert (tmp_path / "model.ckpt-5.input_position").exists()
    sizes = {path.suffix: path.stat().st_size for path in tmp_path.glob("model.ckpt-5.*")}
    assert sizes.pop(".meta") < 100_000  # The graph, without the images.
    assert sum(sizes.values()) < 10_000


def test_position_of_the_input_is_not_saved_if_that_is_not_wanted(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path, counting_model_fn, save_input_position=False)
    interrupt(linear, estimator, day(1))
    assert not list(tmp_path.glob("*.input_position"))
    estimator.train(day(1))
    assert estimator.get_variable_value("global_step") == 5 + 6


def test_end_of_an_interrupted_input_is_told_and_happens_once(linear, tmp_path, caplog):
    estimator = linear.make_estimator(tmp_path, counting_model_fn)
    interrupt(linear, estimator, day(1), send_sigterm_at_6)
    estimator.train(day(1))
    told = "Training made no step: an interrupted run had read 6 batches, and its input has no more"
    assert told in caplog.text
    assert estimator.train(day(1)).get_variable_value("global_step") == 12
