"""Training loop on TensorFlow's own session, for programs without an Estimator.

`run` makes a session that restores and saves checkpoints, trains the caller's graph, prints some
steps, and measures the accuracy at the end. `values_after` and `steps` are the loop alone, for
callers with another session.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import replicate
from examples import cli, mnist
from examples.cli import RunSettings
from replicate.estimator.checkpoints.fallback import newest_checkpoint, set_aside_damaged
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.saved.disk_errors import disk_errors

v1 = tf.compat.v1
EVAL_BATCH = 500
_STOPPED = "Training stopped, since a file cannot be written"
_ADVICE = (
    "Checkpoints that were complete before are whole. Start again to continue from the newest one."
)
Predict = Callable[[Any], Any]
"""Images [batch, height, width, 1] -> digits [batch], by the variables of the graph."""


def values_after(train_op: Any, loss: Any, accuracy: Any) -> dict[str, Any]:
    """Returns the Tensors to fetch in a step: the global step after it, loss and accuracy."""
    global_step = v1.train.get_global_step()
    with v1.control_dependencies([train_op]):
        values = {"step": global_step.read_value()}
        return {**values, "loss": tf.identity(loss), "accuracy": tf.identity(accuracy)}


def steps(
    session: v1.train.MonitoredSession,
    fetches: Mapping[str, Any],
    is_shown: Callable[[int], bool],
) -> Iterator[dict[str, Any]]:
    """Makes steps until the session stops; prints some of them.

    Args:
      session: Runs the steps. At the end of the input it raises OutOfRangeError; a `with` block
        of a monitored session takes for its end.
      fetches: The result of `values_after`.
      is_shown: Maps the number of a step to True if its line is printed.

    Yields:
      The values of each step: "step", "loss" and "accuracy".
    """
    while not session.should_stop():
        with disk_errors(_STOPPED, _ADVICE):  # Before the session sees an error of its own kind.
            values = session.run(fetches)
        if is_shown(int(values["step"])):
            text = "step {step}   loss {loss:.4f}   accuracy {accuracy:.3f}".format(**values)
            cli.show("training", text)
        yield values


def run(
    train_op: Any,
    loss: Any,
    accuracy: Any,
    predict: Predict,
    data: mnist.Dataset,
    settings: RunSettings,
    params: Mapping[str, Any],
) -> None:
    """Trains the default graph up to a step and prints the accuracies.

    Exits with the right code where training is stopped by a signal, after saving, or diverges, or
    where a file of the model directory cannot be written.

    Args:
      train_op: Makes a step and counts it in the global step.
      loss: Loss of the step's batch, shape []. It is printed, and must stay finite.
      accuracy: Of the step's batch, printed beside the loss, shape [].
      predict: Builds the predictions.
      data: Data to evaluate on.
      settings: Settings of the run.
      params: Parameters of the graph, written to config.json.
    """
    fetches = values_after(train_op, loss, accuracy)
    with v1.variable_scope(v1.get_variable_scope(), reuse=True):
        images = v1.placeholder(tf.float32, [None, *data.train.images.shape[1:]])
        digits = predict(images)
    v1.summary.scalar("loss", loss)
    v1.summary.scalar("accuracy", accuracy)
    last, every = settings.train_steps, settings.eval_every_steps
    step = _begin(settings, params)
    try:
        with (
            cli.stop_signals() as stopped,
            disk_errors(_STOPPED, _ADVICE),
            _session(loss, settings) as session,
        ):
            made = steps(session, fetches, lambda step: step % every == 0 or step >= last)
            while step < last and not stopped:
                step = int(next(made)["step"])
            accuracies = {} if stopped else _accuracies(session, images, digits, data)
    except v1.train.NanLossDuringTrainingError as error:
        cli.fail(f"training diverged: {error}", cli.DIVERGED)
    except replicate.CheckpointError as error:
        cli.fail(str(error), cli.BAD_INPUT)
    checkpoint = tf.train.latest_checkpoint(settings.model_dir)
    if stopped:
        cli.show("saved", checkpoint)
        cli.show("go on with", cli.command_line())
        sys.exit(128 + stopped[0])
    for part, measured in accuracies.items():
        cli.show(f"{part} accuracy", f"{measured:.3f}")
    cli.show("checkpoint", checkpoint)


def _session(loss: Any, settings: RunSettings) -> v1.train.MonitoredSession:
    """Makes a session that restores, saves, and stops at a loss that is not finite."""
    return v1.train.MonitoredTrainingSession(
        checkpoint_dir=settings.model_dir,
        hooks=[v1.train.NanTensorHook(loss)],
        save_checkpoint_steps=settings.save_every_steps,
        save_checkpoint_secs=None if settings.save_every_steps else 600,
        log_step_count_steps=None,
        config=v1.ConfigProto(allow_soft_placement=True),
    )


def _begin(settings: RunSettings, params: Mapping[str, Any]) -> int:
    """Writes config.json, prints the step at which the run starts, and returns it."""
    checkpoint = _newest_checkpoint(settings.model_dir)
    step = int(tf.train.load_variable(checkpoint, v1.GraphKeys.GLOBAL_STEP)) if checkpoint else 0
    with cli.bad_input():
        cli.record_config(settings.model_dir, step, params=params)
    cli.show_start(checkpoint, step, settings.model_dir, settings.train_steps)
    return step


def _newest_checkpoint(model_dir: str) -> str | None:
    """Returns the checkpoint that the session will restore, None at a fresh start.

    The session would start at step 0 if it could not read the state file. Exits with one line
    instead, and if no checkpoint can be read.
    """
    try:
        set_aside_damaged(FencedModelDir(model_dir))
        checkpoint = newest_checkpoint(model_dir)
    except replicate.CheckpointError as error:
        cli.fail(str(error), cli.BAD_INPUT)
    with cli.bad_input():
        if checkpoint != tf.train.latest_checkpoint(model_dir):
            raise ValueError(
                f"{model_dir}/checkpoint is damaged, and a plain graph cannot do without it: write "
                f'the line model_checkpoint_path: "{checkpoint}" into it'
            )
    return checkpoint


def _accuracies(
    session: v1.train.MonitoredSession, images: Any, digits: Any, data: mnist.Dataset
) -> dict[str, float]:
    """Returns the share of correct digits on the training set and on the test set."""

    def measure(step_context: Any) -> dict[str, float]:
        """Evaluates without the hooks, which would count these runs as steps."""
        return {
            name: _accuracy(step_context.session, images, digits, part)
            for name, part in (("train", data.train), ("test", data.test))
        }

    return session.run_step_fn(measure)


def _accuracy(session: v1.Session, images: Any, digits: Any, part: mnist.Examples) -> float:
    found = [
        session.run(digits, {images: part.images[start : start + EVAL_BATCH]})
        for start in range(0, len(part.labels), EVAL_BATCH)
    ]
    return float(np.mean(np.concatenate(found) == part.labels))
