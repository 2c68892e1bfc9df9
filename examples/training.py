"""What a training program does around its model: towers, rounds, and what it prints.

`plan_towers` decides where towers go, `train_and_evaluate` alternates training with evaluation and
goes on from a checkpoint if there is one, `show_results` closes. Models, data and flags belong to
the programs, such as `examples/convnet.py`, and so does the Estimator that they hand over.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

import kfac
import model_deploy
import replicate
from examples import curves, mnist, terminal

v1 = tf.compat.v1
EVAL_BATCH = 500
Results = Mapping[str, Mapping[str, float]]
"""Name of an evaluation ("train", "test") -> metric -> value."""


def plan_towers(num_towers: int | None, devices: Sequence[str] | None) -> model_deploy.DevicePlan:
    """Decides how many towers there are and where each goes.

    Towers go on GPUs if there are enough of them, else on the CPU, which is divided into that many
    logical devices. Call this before TensorFlow has run anything.

    Args:
      num_towers: How many; None means all GPUs, or 2 if there are fewer than two.
      devices: A device for each tower, or None to choose them here.

    Raises:
      ValueError: The two do not fit together, or a device does not exist.
    """
    if devices and num_towers not in (None, len(devices)):
        raise ValueError(f"{num_towers} towers cannot go on {len(devices)} devices: {devices}")
    gpus = model_deploy.local_devices("GPU")
    count = len(devices or ()) or num_towers or max(2, len(gpus))
    if not devices and count <= len(gpus):
        return model_deploy.device_plan(gpus[:count])
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * count
    )
    return model_deploy.device_plan(devices or model_deploy.local_devices("CPU"))


def check_batch_size(batch_size: int, plan: model_deploy.DevicePlan) -> None:
    """Raises ValueError unless the towers can share the batch equally."""
    towers = len(plan.towers)
    if batch_size % towers:
        fitting = sorted({max(batch_size // towers, 1) * towers, -(-batch_size // towers) * towers})
        raise ValueError(
            f"--batch_size={batch_size} cannot be split into {towers} equal parts, one for each "
            f"tower; {' or '.join(map(str, fitting))} can"
        )


def train_and_evaluate(
    estimator: replicate.Estimator,
    data: mnist.Dataset,
    *,
    batch_size: int,
    train_steps: int,
    eval_every_steps: int,
    seed: int,
) -> Results:
    """Trains up to a step, evaluating on both parts of the data on the way and at the end.

    Args:
      estimator: What trains; it goes on from its latest checkpoint.
      data: What to train and test on.
      batch_size: Rows in a training step.
      train_steps: The step to train to. Nothing is trained if the checkpoint is there already.
      eval_every_steps: Steps between two evaluations.
      seed: Of the order of training examples.

    Returns:
      The results of the last evaluations, named "train" and "test".
    """
    step = _announce_start(estimator, train_steps)
    evaluator = _without_progress(estimator)
    hooks = [PrintModelTable()]
    results = _evaluate(evaluator, data, step) if step >= train_steps else {}
    while step < train_steps:
        step = min(train_steps, (step // eval_every_steps + 1) * eval_every_steps)
        estimator.train(
            lambda: mnist.input_fn(*data.train, batch_size, training=True, seed=seed),
            max_steps=step,
            hooks=hooks,
        )
        hooks = []
        results = _evaluate(evaluator, data, step)
    return results


def show_results(estimator: replicate.Estimator, results: Results, title: str) -> None:
    """Draws the curves, and prints the accuracies and where everything is."""
    folder = estimator.model_dir
    picture = f"{folder}/curves.png"
    curves.draw(curves.read(folder), picture, title)
    for part, result in results.items():
        terminal.show(f"{part} accuracy", f"{result['accuracy']:.3f}")
    terminal.show("checkpoint", estimator.latest_checkpoint())
    terminal.show("events", f"{folder}    look at them with: tensorboard --logdir {folder}")
    terminal.show("curves", picture)


class PrintModelTable(v1.train.SessionRunHook):
    """Prints the trainable variables when the graph is complete, with the K-FAC block of each."""

    def begin(self) -> None:
        """Prints the table."""
        notes = kfac.graph_layer_collection().describe()
        print(replicate.model_table(v1.trainable_variables(), notes or None), flush=True)


def _announce_start(estimator: replicate.Estimator, train_steps: int) -> int:
    """Says where training starts and returns that step."""
    checkpoint = estimator.latest_checkpoint()
    if checkpoint is None:
        terminal.show("checkpoint", f"none in {estimator.model_dir}: starting at step 0")
        return 0
    step = int(estimator.get_variable_value(v1.GraphKeys.GLOBAL_STEP))
    plan = f"continuing at step {step}"
    if step >= train_steps:
        plan = f"complete at step {step}, nothing to train up to step {train_steps}"
    terminal.show("checkpoint", f"{checkpoint}: {plan}")
    return step


def _without_progress(estimator: replicate.Estimator) -> replicate.Estimator:
    """Returns an Estimator of the same model that works in silence."""
    return replicate.Estimator(
        estimator.model_fn,
        config=dataclasses.replace(estimator.config, progress="off"),
    )


def _evaluate(estimator: replicate.Estimator, data: mnist.Dataset, step: int) -> Results:
    """Evaluates on the training and the test set, and prints one line."""
    results = {
        name: estimator.evaluate(
            lambda part=part: mnist.input_fn(*part, EVAL_BATCH, training=False), name=name
        )
        for name, part in (("train", data.train), ("test", data.test))
    }
    texts = (
        f"{name} loss {result['loss']:.4f} accuracy {result['accuracy']:.3f}"
        for name, result in results.items()
    )
    terminal.show("evaluation", f"step {step}   " + "   ".join(texts))
    return results
