import dataclasses
import json
import os
import signal
import time

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from replicate.errors import NonFiniteError
from replicate.estimator import CheckpointError, ClusterError, TrainingInterrupted
from replicate.estimator.end_marker import announce_end
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1


# Resuming


def test_random_operations_give_one_warning(linear, tmp_path, caplog):
    def model_fn(features, labels, mode, params):
        return linear.model_fn(tf.nn.dropout(features, rate=0.1), labels, mode, params)

    unseeded = linear.make_estimator(tmp_path / "a", model_fn, tf_random_seed=None)
    unseeded.train(linear.input_fn, steps=1)
    assert "Checkpoints cannot hold" not in caplog.text
    estimator = linear.make_estimator(tmp_path / "b", model_fn)
    estimator.train(linear.input_fn, steps=1).train(linear.input_fn, steps=1)
    assert caplog.text.count("Checkpoints cannot hold the state of these random operations") == 1


def test_training_continues_before_a_damaged_checkpoint(linear, tmp_path, caplog):
    name = "model.ckpt-6.data-00000-of-00001"
    estimator = linear.make_estimator(tmp_path).train(linear.input_fn, max_steps=6)
    (tmp_path / name).write_bytes(b"short")
    steps = []
    estimator.train(linear.input_fn, max_steps=8, hooks=[linear.CallHook(steps.append)])
    assert steps == [6, 7, 8]
    assert f"damaged file {tmp_path}/{name}" in caplog.text
    assert (tmp_path / f"{name}.corrupt").read_bytes() == b"short"
    np.testing.assert_allclose(estimator.get_variable_value("w"), linear.trained(8)[0], rtol=2e-6)

    for path in tmp_path.glob("*.data-*"):
        path.write_bytes(b"short")
    kept = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(CheckpointError, match=r"none of them can be read.*model\.ckpt-8.*ckpt-5"):
        estimator.train(linear.input_fn, max_steps=9)
    with pytest.raises(CheckpointError, match="none of them can be read"):
        estimator.evaluate(linear.once_input_fn)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == kept


def test_unusable_model_dir_fails_before_any_work(linear, tmp_path):
    (tmp_path / "file").write_text("")

    def must_not_be_called():
        raise AssertionError("input_fn was called")

    with pytest.raises(ValueError, match="Cannot train in model_dir"):
        linear.make_estimator(tmp_path / "file").train(must_not_be_called, steps=1)


# Hooks


class Recorder(v1.train.SessionRunHook):
    """Notes the order of all calls of all recorders; ends training after a number of steps."""

    def __init__(self, name, calls, steps=0):
        self.note = lambda call: calls.append(f"{name} {call}")
        self.left = steps

    def begin(self):
        self.note("begin")

    def after_create_session(self, session, coord):
        self.note("session")

    def before_run(self, run_context):
        self.note("before")

    def after_run(self, run_context, run_values):
        self.note("after")
        self.left -= 1
        if self.left == 0:
            run_context.request_stop()

    def end(self, session):
        self.note("end")


def test_hooks_are_called_in_order_and_can_end_training(linear, tmp_path):
    calls = []

    def model_fn(features, labels, mode, params):
        spec = linear.model_fn(features, labels, mode, params)
        return spec._replace(
            training_hooks=[Recorder("model", calls)],
            training_chief_hooks=[Recorder("chief", calls)],
        )

    estimator = linear.make_estimator(tmp_path, model_fn)
    estimator.train(linear.input_fn, max_steps=9, hooks=[Recorder("user", calls, steps=2)])
    step = [f"{name} {call}" for call in ("before", "after") for name in ("user", "model", "chief")]
    around = {
        call: [f"{name} {call}" for name in ("user", "model", "chief")]
        for call in ("begin", "session", "end")
    }
    assert calls == [*around["begin"], *around["session"], *step, *step, *around["end"]]


def test_hooks_end_when_the_last_step_is_saved_unless_they_change_it(linear, tmp_path):
    saved = []

    class Looking(v1.train.SessionRunHook):
        def end(self, session):
            saved.append(estimator.latest_checkpoint())
            raise OSError("no place to upload to")

    class Changing(v1.train.SessionRunHook):
        ends_before_save = True

        def begin(self):
            (bias,) = (each for each in v1.trainable_variables() if each.op.name == "b")
            self.change = bias.assign([7.0]).op

        def end(self, session):
            session.run(self.change)

    estimator = linear.make_estimator(tmp_path)
    with pytest.raises(OSError, match="no place"):
        estimator.train(linear.input_fn, max_steps=3, hooks=[Looking(), Changing()])
    assert saved == [f"{tmp_path}/model.ckpt-3"]
    assert estimator.get_variable_value("b") == [7.0]


# Numbers


def test_loss_that_is_not_finite_stops_and_the_newest_checkpoint_is_finite(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path, params={"rate": 1e8}, save_checkpoints_steps=1)
    with pytest.raises(NonFiniteError, match=r"Training stopped at step \d+"):
        estimator.train(linear.input_fn, max_steps=100)
    assert all(np.isfinite(value).all() for value in linear.values(estimator).values())
    assert estimator.get_variable_value("global_step") > 0


def test_variable_that_is_not_finite_is_not_saved(linear, tmp_path):
    def model_fn(features, labels, mode):
        weight = v1.get_variable("w", initializer=1.0)
        step = v1.train.get_global_step()
        with tf.control_dependencies([weight.assign(tf.where(step < 3, 2.0, np.nan))]):
            return EstimatorSpec(mode, loss=tf.constant(1.0), train_op=step.assign_add(1))

    estimator = linear.make_estimator(tmp_path, model_fn, save_checkpoints_steps=2)
    with pytest.raises(NonFiniteError, match="stopped at step 4: not finite: w"):
        estimator.train(linear.input_fn, max_steps=9)
    assert estimator.latest_checkpoint() == f"{tmp_path}/model.ckpt-2"


# What it shows and writes


def test_restart_continues_the_events_and_the_metric_lines(linear, tmp_path):
    for max_steps in (4, 4, 9):
        estimator = linear.make_estimator(tmp_path, save_summary_steps=3, log_step_count_steps=3)
        estimator.train(linear.input_fn, max_steps=max_steps)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in events.Scalars("loss")] == [1, 4, 5, 8, 9]
    assert [event.step for event in events.Scalars("global_step/sec")] == [3, 4, 7, 9]
    assert events.Scalars("loss")[0].value == pytest.approx(np.mean(linear.Y[:4] ** 2), rel=1e-5)
    estimator.evaluate(linear.input_fn, steps=1, name="test")
    read = [(path, map(json.loads, path.open())) for path in tmp_path.rglob("metrics.jsonl")]
    steps = {path.parent.name: [line["step"] for line in found] for path, found in read}
    assert steps == {tmp_path.name: [3, 4, 7, 9], "eval_test": [9]}


def shown_starts(text):
    return [line.partition("starting: ")[2] for line in text.splitlines() if "starting" in line]


def test_progress_says_what_a_run_starts_with(linear, tmp_path, capsys):
    estimator = linear.make_estimator(tmp_path, progress="log")
    estimator.train(linear.input_fn, max_steps=3)
    building, compiling = "building the model", "compiling the first step"
    shown = capsys.readouterr().err
    assert shown.startswith("train  starting: building the model\n")
    assert "train  step 3/3  " in shown
    assert shown_starts(shown) == [building, "initializing the variables", compiling]
    estimator.train(linear.input_fn, max_steps=6)
    assert shown_starts(capsys.readouterr().err) == [], "said once for each Estimator"
    linear.make_estimator(tmp_path, progress="log").train(linear.input_fn, max_steps=9)
    assert shown_starts(capsys.readouterr().err) == [building, "restoring model.ckpt-6", compiling]


# Signals


def test_signal_saves_the_step_reached(linear, tmp_path):
    def send(step):
        if step == 7:
            signal.raise_signal(signal.SIGINT)

    estimator = linear.make_estimator(tmp_path)
    with pytest.raises(TrainingInterrupted) as caught:
        estimator.train(linear.input_fn, max_steps=20, hooks=[linear.CallHook(send)])
    assert (caught.value.code, caught.value.signum, caught.value.step) == (130, signal.SIGINT, 7)
    assert caught.value.checkpoint == estimator.latest_checkpoint() == f"{tmp_path}/model.ckpt-7"
    np.testing.assert_allclose(estimator.get_variable_value("w"), linear.trained(7)[0], rtol=2e-6)


INTERRUPTED = """
def tell(step):
    print(step, flush=True)
estimator = linear.make_estimator(sys.argv[2], save_checkpoints_steps=10**6)
estimator.train(linear.input_fn, hooks=[linear.CallHook(tell)])
"""


def test_signal_to_a_process_ends_it_with_the_exit_code(linear, stub, tmp_path):
    child = stub(INTERRUPTED, tmp_path)
    while child.stdout.readline() != "5\n":
        assert child.poll() is None, child.stderr.read()
    os.kill(child.pid, signal.SIGTERM)
    printed, _ = child.communicate(timeout=30)
    assert child.returncode == 143
    last = int(["5", *printed.split()][-1])
    estimator = linear.make_estimator(tmp_path)
    assert estimator.latest_checkpoint() == f"{tmp_path}/model.ckpt-{last}"


def uncounted_model_fn(features, labels, mode):
    """A model whose train_op does not increase the global step."""
    weights = v1.get_variable("w", [3, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(features, weights) - labels))
    rate = v1.train.exponential_decay(0.1, v1.train.get_global_step(), 10, 0.5)
    train_op = v1.train.GradientDescentOptimizer(rate).minimize(loss)
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class CountingHook(v1.train.SessionRunHook):
    """Increases the global step by an operation that it makes in `begin`."""

    def begin(self):
        self._count = v1.assign_add(v1.train.get_global_step(), 1)

    def after_run(self, run_context, run_values):
        run_context.session.run(self._count)


def test_model_without_a_step_counter_is_refused_for_steps_unless_a_hook_counts(linear, tmp_path):
    def with_saver(features, labels, mode):
        spec = uncounted_model_fn(features, labels, mode)
        return spec._replace(scaffold=v1.train.Scaffold(saver=v1.train.Saver()))

    for model_fn, limit in ((uncounted_model_fn, "max_steps"), (with_saver, "steps")):
        with pytest.raises(ValueError, match=r"nothing in the graph .* increases the global step"):
            linear.make_estimator(tmp_path, model_fn).train(linear.input_fn, **{limit: 3})
    estimator = linear.make_estimator(tmp_path, uncounted_model_fn, save_checkpoints_steps=None)
    estimator.train(linear.input_fn, hooks=[CountingHook()], max_steps=3)


class LossesHook(v1.train.SessionRunHook):
    """Keeps the losses that it finds in the graph."""

    def begin(self):
        self.names = [loss.op.name for loss in v1.losses.get_losses()]


@pytest.mark.parametrize(
    ("towers", "scales", "added"), [(0, False, []), (0, True, ["twice"]), (2, True, ["loss"])]
)
def test_hooks_find_the_loss_once(linear, tmp_path, towers, scales, added):
    def model_fn(features, labels, mode):
        outputs = tf.matmul(features, v1.get_variable("w", [3, 1]))
        loss = v1.losses.mean_squared_error(labels, outputs)
        seen.append(len(v1.losses.get_losses()))
        if scales:
            loss = tf.multiply(loss, 2.0, name="twice")
        optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    seen, hook = [], LossesHook()
    model = replicate_model_fn(model_fn, devices=["/cpu:0"] * 2) if towers else model_fn
    linear.make_estimator(tmp_path, model).train(linear.input_fn, hooks=[hook], steps=1)
    assert set(seen) == {1}, "the model_fn sees only its own losses"
    assert hook.names[max(towers, 1) :] == added, "after those of the model"


def test_without_an_interval_no_checkpoint_is_saved(linear, tmp_path):
    estimator = linear.make_estimator(
        tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=None
    )
    steps = []
    estimator.train(linear.input_fn, max_steps=3, hooks=[linear.CallHook(steps.append)])
    assert steps == [1, 2, 3]
    left = {path.name.split(".")[0] for path in tmp_path.iterdir()}
    assert left <= {"events", "metrics", "run", "time"}
    with pytest.raises(ValueError, match=r"tell 1 checkpoint listeners.* no checkpoint is saved"):
        estimator.train(
            linear.input_fn, steps=1, saving_listeners=[v1.train.CheckpointSaverListener()]
        )


def test_training_logs_its_last_loss_or_warns_of_no_step(linear, tmp_path, caplog):
    class Stop(v1.train.SessionRunHook):
        def after_create_session(self, session, coord):
            coord.request_stop()

    caplog.set_level("INFO", "tensorflow")
    estimator = linear.make_estimator(tmp_path)
    estimator.train(lambda: linear.input_fn().take(0), max_steps=3)
    assert "Training made no step: the input ended before the first step" in caplog.text
    estimator.train(linear.input_fn, max_steps=3, hooks=[Stop()])
    assert "Training made no step: a hook asked for the end before" in caplog.text
    assert "Loss for final step" not in caplog.text
    estimator.train(linear.input_fn, max_steps=1)
    assert caplog.text.count("Training made no step") == 2
    [line] = [each for each in caplog.messages if each.startswith("Loss for final step")]
    loss = float(line.removeprefix("Loss for final step: ").removesuffix("."))
    np.testing.assert_allclose(loss, np.mean(linear.Y[: linear.BATCH] ** 2), rtol=1e-6)


# In a cluster


class Lose(v1.train.SessionRunHook):
    """Loses the session after some steps, once."""

    def __init__(self, function=lambda: None):
        self.steps = 0
        self.function = function

    def after_run(self, run_context, run_values):
        self.steps += 1
        if self.steps == 3:
            self.function()
            raise tf.errors.UnavailableError(None, None, "ps 0 has left")


def test_lost_session_is_replaced_with_a_warning(linear, roles, tmp_path, caplog):
    role = roles["chief", 0]
    lose = Lose()
    estimator = linear.make_estimator(tmp_path, cluster=role)
    estimator.train(linear.input_fn, max_steps=6, hooks=[lose])
    assert estimator.get_variable_value("global_step") == 6
    assert lose.steps == 6, "the variables lived on"
    np.testing.assert_allclose(estimator.get_variable_value("w"), linear.trained(6)[0], rtol=2e-6)
    assert "session was lost (UnavailableError: ps 0 has left)" in caplog.text
    with pytest.raises(ClusterError, match=r"gives up at step 8: .* ps 0 has left"):
        linear.make_estimator(tmp_path, cluster=role, max_restarts=0).train(
            linear.input_fn, max_steps=12, hooks=[Lose()]
        )


def test_worker_ends_if_chief_and_servers_have_ended(linear, roles, tmp_path):
    chief = linear.make_estimator(tmp_path, cluster=roles["chief", 0])
    chief.train(linear.input_fn, max_steps=2)
    lose = Lose(lambda: announce_end(str(tmp_path)))
    worker = linear.make_estimator(tmp_path, cluster=roles["worker", 0])
    worker.train(linear.input_fn, hooks=[lose])
    assert lose.steps == 3


@pytest.mark.parametrize("is_there", [True, False])
def test_worker_ends_if_training_ends_while_it_builds_its_graph(linear, roles, tmp_path, is_there):
    role = roles["worker", 0]
    if not is_there:
        role = dataclasses.replace(role, jobs={**role.jobs, "ps": ("127.0.0.1:1",)})

    def input_fn():
        announce_end(str(tmp_path))
        return linear.input_fn()

    announce_end(str(tmp_path))
    worker = linear.make_estimator(tmp_path, cluster=role, session_creation_timeout_secs=20)
    started = time.monotonic()
    worker.train(input_fn)
    assert time.monotonic() - started < 20, "it waits neither for the chief nor for its server"
