"""The functions of tensorflow/kfac's ConvNet tutorial, by their names there, to import and call.

    from examples import convnet_tutorial

    convnet_tutorial.train_mnist_single_machine(num_epochs=5, device="/gpu:0")

Arguments are those of the tutorial, and `data_dir`; they may also come in the order of
tf.contrib.kfac's tutorial, in which `data_dir` stands before `num_epochs`. The settings of the
optimizer are the tutorial's. The layers come from `examples.convnet_model`, the training from
`examples.convnet_modes`; this module only combines them as the tutorial does.
docs/reference/old_names_kfac.md has the differences from both tutorials.

Each `train_…` function builds its own graph. Call the other functions inside
`with tf.Graph().as_default():`. All print step, loss and accuracy on the way, and return the
accuracy on the last batch, or NaN if there was no batch.

Reference: Grosse & Martens (2016), "A Kronecker-factored approximate Fisher matrix for
convolution layers", arXiv 1602.01407.
"""

import math
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import tensorflow as tf

import kfac
import replicate
from examples import convnet_model, mnist, plain_training, training
from examples.argument_order import in_older_order
from examples.convnet_modes import kfac_updates, multitower, sync_replicas

v1 = tf.compat.v1
Tensor = Any

BATCH = 128
"""Images in a batch, of each tower or worker."""

REPORT_EVERY = 10
"""Steps from one line to the next; in a cluster each step has its line."""

PARAMS: Mapping[str, Any] = MappingProxyType(
    {
        "optimizer": "kfac",
        "learning_rate": 1e-4,
        "momentum": 0.9,
        "damping": 0.001,
        "norm_constraint": None,
        "kfac_updates": "periodic",
    }
)
"""Settings of the tutorial's optimizer, as for `kfac_updates.minimize`."""


def estimator_params() -> dict[str, Any]:
    """Returns the settings of the tutorial's optimizer in an Estimator.

    Its learning rate begins at 2e-5 and is halved every 10,000 steps.
    """

    def learning_rate() -> Tensor:
        step = v1.train.get_or_create_global_step()
        return v1.train.exponential_decay(2e-5, step, 10_000, 0.5, staircase=True)

    return {**PARAMS, "learning_rate": learning_rate}


class Task(NamedTuple):
    """Task of this process in a cluster.

    Attributes:
      task_id: From 0, the chief.
      is_chief: True in the chief.
      num_workers: Workers, the chief among them.
      num_ps: Parameter servers; without any, variables are in this process.
      master: Address of the server that runs the session; "" means this process.
    """

    task_id: int
    is_chief: bool
    num_workers: int
    num_ps: int
    master: str

    def device(self) -> Any:
        """Returns the device scope that puts variables on parameter servers, if there are any."""
        worker = f"/job:worker/task:{self.task_id}"
        return v1.device(v1.train.replica_device_setter(self.num_ps, worker_device=worker))


# Layers.


def conv_layer(
    layer_id: int, inputs: Tensor, kernel_size: int, out_channels: int
) -> tuple[Tensor, Tensor, tuple[Any, Any]]:
    """Builds a convolution, padding SAME, and its ReLU: (before it, after it, (weights, bias)).

    Inputs are [batch, height, width, channels].
    """
    layer = convnet_model.conv_layer(f"conv_{layer_id}", inputs, kernel_size, out_channels)
    return layer.outputs, tf.nn.relu(layer.outputs), (layer.weights, layer.bias)


def max_pool_layer(layer_id: int, inputs: Tensor, kernel_size: int, stride: int) -> Tensor:
    """Takes the largest of each window of [batch, height, width, channels], padding SAME."""
    with v1.name_scope(f"pool_{layer_id}"):
        return convnet_model.max_pool_layer(inputs, kernel_size, stride)


def fc_layer(
    layer_id: int, inputs: Tensor, output_size: int
) -> tuple[Tensor, Tensor, tuple[Any, Any]]:
    """Builds a dense layer of [batch, features] and its tanh: (before it, after it, parameters)."""
    layer = convnet_model.linear_layer(f"fc_{layer_id}", inputs, output_size)
    return layer.outputs, tf.tanh(layer.outputs), (layer.weights, layer.bias)


def linear_layer(layer_id: int, inputs: Tensor, output_size: int) -> tuple[Tensor, tuple[Any, Any]]:
    """Builds a dense layer without any non-linearity; see `fc_layer`.

    Returns:
      (outputs, (weights, bias)).
    """
    outputs, _, params = fc_layer(layer_id, inputs, output_size)
    return outputs, params


def build_model(
    examples: Tensor,
    labels: Tensor,
    num_labels: int,
    layer_collection: kfac.LayerCollection,
    register_layers_manually: bool = True,
) -> tuple[Tensor, Tensor]:
    """Builds the ConvNet and registers it.

    Args:
      examples: Images [batch, height, width, channels].
      labels: Their classes, [batch].
      num_labels: Number of classes.
      layer_collection: Collection to register in.
      register_layers_manually: Whether layers are registered, too, and not only the loss. Then
        `layer_collection.auto_register_layers()` finds nothing that is left to do.

    Returns:
      (mean loss, accuracy), both of shape [].
    """
    model = convnet_model.build_model(examples, num_labels)
    if register_layers_manually:
        convnet_model.register(layer_collection, model, {})
    else:
        layer_collection.register_softmax_cross_entropy_loss(model.logits, name="logits")
    return convnet_model.mean_loss(model, labels), convnet_model.mean_accuracy(model, labels)


# On one machine.


@in_older_order(
    "loss", "accuracy", "layer_collection", "session_config",
    told_by="session_config", kinds=v1.ConfigProto,
)  # fmt: skip
def minimize_loss_single_machine(
    loss: Tensor,
    accuracy: Tensor,
    layer_collection: kfac.LayerCollection,
    device: str | None = None,
    session_config: Any = None,
) -> float:
    """Trains until the input ends, with an optimizer that refreshes its curvature by itself.

    Args:
      loss: The mean over the batch, shape [].
      accuracy: Of the same batch, shape [].
      layer_collection: Knows the layers and the loss.
      device: Device of K-FAC's averages and inverses. With None or "" K-FAC chooses.
      session_config: Of the session; None means soft placement.
    """
    devices = [device] if device else None
    measures = loss, accuracy, layer_collection
    return train_until_input_ends(*measures, PARAMS, devices, session_config)


def minimize_loss_single_machine_manual(
    loss: Tensor,
    accuracy: Tensor,
    layer_collection: kfac.LayerCollection,
    device: str | None = None,
    session_config: Any = None,
) -> float:
    """Does the same as `minimize_loss_single_machine`, with updates chained by hand."""
    devices = [device] if device else None
    measures = loss, accuracy, layer_collection
    by_hand = {**PARAMS, "kfac_updates": "by_hand"}
    return train_until_input_ends(*measures, by_hand, devices, session_config)


def train_until_input_ends(
    loss: Tensor,
    accuracy: Tensor,
    layers: kfac.LayerCollection,
    params: Mapping[str, Any],
    devices: Sequence[str] | None = None,
    session_config: Any = None,
) -> float:
    """Trains the default graph in this process.

    Args:
      loss: The mean over the batch, shape [].
      accuracy: Of the same batch, shape [].
      layers: Knows the layers and the loss.
      params: As for `kfac_updates.minimize`.
      devices: Devices of K-FAC's updates, taken in turn. If empty, K-FAC chooses.
      session_config: Of the session; None means soft placement.

    Returns:
      The accuracy on the last batch, or NaN if there was no batch.
    """
    train_op = kfac_updates.minimize(loss, params, devices, layers)
    fetches = plain_training.values_after(train_op, loss, accuracy)
    config = session_config or v1.ConfigProto(allow_soft_placement=True)
    session = v1.train.MonitoredTrainingSession(config=config, log_step_count_steps=None)
    return _last_accuracy(session, fetches, REPORT_EVERY)


@in_older_order(
    "data_dir", "num_epochs", "use_fake_data", "device", "manual_op_exec", told_by="data_dir"
)
def train_mnist_single_machine(
    num_epochs: int,
    use_fake_data: bool = False,
    device: str | None = None,
    manual_op_exec: bool = False,
    *,
    data_dir: str | None = None,
) -> float:
    """Trains on one device.

    Args:
      num_epochs: Number of passes over the images.
      use_fake_data: True: train on images of noise.
      device: Device of K-FAC's averages and inverses. With None or "" K-FAC chooses.
      manual_op_exec: True: chain K-FAC's updates by hand.
      data_dir: Folder of MNIST's IDX files; None means scikit-learn's digits.

    Returns:
      The accuracy on the last batch, or NaN if there was no batch.

    Raises:
      TypeError: The arguments are in neither of the two orders. This, too, holds for all functions
        that take `data_dir`.
      ValueError: As in `mnist.load_mnist`; it holds for all functions that take `data_dir`.
    """
    minimize = (
        minimize_loss_single_machine_manual if manual_op_exec else minimize_loss_single_machine
    )
    with tf.Graph().as_default():
        batch = mnist.load_mnist(data_dir, num_epochs, BATCH, False, use_fake_data)
        layers = kfac.LayerCollection()
        loss, accuracy = build_model(*batch, mnist.CLASSES, layers)
        return minimize(loss, accuracy, layers, device)


@in_older_order(
    "data_dir", "num_epochs", "num_towers", "use_fake_data", "devices", told_by="data_dir"
)
def train_mnist_multitower(
    num_epochs: int,
    num_towers: int | None = None,
    devices: Sequence[str] | None = None,
    use_fake_data: bool = False,
    session_config: Any = None,
    *,
    data_dir: str | None = None,
) -> float:
    """Trains on several devices. K-FAC's averages and inverses are spread over them.

    Args:
      num_epochs: Number of passes over the images.
      num_towers: Number of towers. None means as many as devices.
      devices: A device for each tower; None chooses them.
      use_fake_data: True: train on images of noise.
      session_config: Of the session; None means soft placement.
      data_dir: As in `train_mnist_single_machine`.

    Raises:
      ValueError: The devices are not as many as the towers, or do not exist.
    """
    plan = training.plan_towers(num_towers, devices)
    with tf.Graph().as_default():
        size = BATCH * len(plan.towers)
        batch = mnist.load_mnist(data_dir, num_epochs, size, False, use_fake_data)
        layers = kfac.LayerCollection()
        loss, accuracy = multitower.mean_of_towers(
            batch, plan, lambda x, y: build_model(x, y, mnist.CLASSES, layers)
        )
        return train_until_input_ends(loss, accuracy, layers, PARAMS, plan.towers, session_config)


@in_older_order("data_dir", "num_epochs", "use_fake_data", told_by="data_dir")
def train_mnist_estimator(
    num_epochs: int,
    use_fake_data: bool = False,
    *,
    data_dir: str | None = None,
    model_dir: str | None = None,
) -> float:
    """Trains with an Estimator. Returns the accuracy on all training images.

    The data are as for `train_mnist_single_machine`. Checkpoints are in `model_dir`; None means a
    temporary folder.
    """
    examples = mnist.training_examples(data_dir, use_fake_data)
    estimator = replicate.Estimator(convnet_model.model_fn, model_dir, params=estimator_params())
    estimator.train(
        lambda: mnist.input_fn(*examples, BATCH // 2, training=True, num_epochs=num_epochs)
    )
    return float(
        estimator.evaluate(lambda: mnist.input_fn(*examples, BATCH, training=False))["accuracy"]
    )


# In a cluster.


def distributed_grads_only_and_ops_chief_worker(
    task_id: int,
    is_chief: bool,
    num_worker_tasks: int,
    num_ps_tasks: int,
    master: str,
    checkpoint_dir: str | None,
    loss: Tensor,
    accuracy: Tensor,
    layer_collection: kfac.LayerCollection,
    invert_every: int = convnet_model.INVERT_EVERY,
    *,
    last_step: int | None = None,
) -> float:
    """Trains one worker of a cluster whose chief alone refreshes the curvature.

    Args:
      task_id: Index of this worker. 0 is the chief.
      is_chief: True in the chief.
      num_worker_tasks: Workers, the chief among them.
      num_ps_tasks: Parameter servers; 0 keeps the variables in this process.
      master: Address of the server that runs the session; "" means this process.
      checkpoint_dir: Directory of the checkpoints. None means that none are written.
      loss: The mean over this worker's batch, shape [].
      accuracy: Of the same batch, shape [].
      layer_collection: Knows the layers and the loss.
      invert_every: Steps between two computations of the inverses.
      last_step: The global step at which all end; None means that input ends it.

    Raises:
      ValueError: There is no such worker, or there are too few workers for the strategy.
    """
    task = Task(task_id, is_chief, num_worker_tasks, num_ps_tasks, master)
    measures = loss, accuracy, layer_collection
    return _minimize_in_cluster(
        "chief_worker", task, *measures, checkpoint_dir, invert_every, last_step
    )


def distributed_grads_and_ops_dedicated_workers(
    task_id: int,
    is_chief: bool,
    num_worker_tasks: int,
    num_ps_tasks: int,
    master: str,
    checkpoint_dir: str | None,
    loss: Tensor,
    accuracy: Tensor,
    layer_collection: kfac.LayerCollection,
    *,
    last_step: int | None = None,
) -> float:
    """Trains one of three or more workers, some of which only refresh the curvature.

    Arguments and errors are those of `distributed_grads_only_and_ops_chief_worker`.
    """
    task = Task(task_id, is_chief, num_worker_tasks, num_ps_tasks, master)
    measures = loss, accuracy, layer_collection
    every = convnet_model.INVERT_EVERY
    return _minimize_in_cluster(
        "dedicated_workers", task, *measures, checkpoint_dir, every, last_step
    )


def minimize_loss_distributed(
    task_id: int,
    num_worker_tasks: int,
    num_ps_tasks: int,
    master: str,
    checkpoint_dir: str | None,
    loss: Tensor,
    accuracy: Tensor,
    layer_collection: kfac.LayerCollection,
    *,
    last_step: int | None = None,
) -> float:
    """Does the same as `distributed_grads_and_ops_dedicated_workers`. Worker 0 is the chief."""
    return distributed_grads_and_ops_dedicated_workers(
        task_id, task_id == 0, num_worker_tasks, num_ps_tasks, master, checkpoint_dir, loss,
        accuracy, layer_collection, last_step=last_step,
    )  # fmt: skip


@in_older_order(
    "task_id", "is_chief", "num_worker_tasks", "num_ps_tasks", "master", "data_dir", "num_epochs",
    "op_strategy", "use_fake_data", told_by="data_dir",
)  # fmt: skip
def train_mnist_distributed_sync_replicas(
    task_id: int,
    is_chief: bool,
    num_worker_tasks: int,
    num_ps_tasks: int,
    master: str,
    num_epochs: int,
    op_strategy: str,
    use_fake_data: bool = False,
    *,
    data_dir: str | None = None,
    checkpoint_dir: str | None = None,
) -> float:
    """Trains one worker of a cluster, in steps that all workers make together.

    The task's arguments are those of `distributed_grads_only_and_ops_chief_worker`, the data's
    those of `train_mnist_single_machine`. Each worker makes `num_epochs` passes over the images,
    and all end at the same step. `op_strategy` divides K-FAC's work: "chief_worker",
    "dedicated_workers" or "shared". Checkpoints are in `checkpoint_dir`, or the folder "kfac" in
    `data_dir`; if both are None, none are written.

    Raises:
      ValueError: As there; or the strategy is unknown.
    """
    if checkpoint_dir is None and data_dir is not None:
        checkpoint_dir = os.path.join(data_dir, "kfac")
    task = Task(task_id, is_chief, num_worker_tasks, num_ps_tasks, master)
    examples = mnist.training_examples(data_dir, use_fake_data)
    last_step = num_epochs * len(examples.labels) // BATCH
    with tf.Graph().as_default():
        batch = mnist.tensors(*examples, BATCH, seed=task_id)
        layers = kfac.LayerCollection()
        with task.device():
            loss, accuracy = build_model(*batch, mnist.CLASSES, layers)
        every = convnet_model.INVERT_EVERY
        return _minimize_in_cluster(
            op_strategy, task, loss, accuracy, layers, checkpoint_dir, every, last_step
        )


def train_mnist_distributed(
    task_id: int,
    num_worker_tasks: int,
    num_ps_tasks: int,
    master: str,
    data_dir: str | None,
    num_epochs: int,
    use_fake_data: bool = False,
) -> float:
    """Trains one worker with dedicated workers for the curvature. Worker 0 is the chief.

    Arguments and errors are those of `train_mnist_distributed_sync_replicas`.
    """
    return train_mnist_distributed_sync_replicas(
        task_id, task_id == 0, num_worker_tasks, num_ps_tasks, master, data_dir, num_epochs,
        "dedicated_workers", use_fake_data,
    )  # fmt: skip


def _minimize_in_cluster(
    strategy: str,
    task: Task,
    loss: Tensor,
    accuracy: Tensor,
    layers: kfac.LayerCollection,
    checkpoint_dir: str | None,
    invert_every: int,
    last_step: int | None,
) -> float:
    """Makes the optimizer of one worker, and trains until the last step or the end of its input."""
    worker = kfac.WorkerRole(strategy, task.num_workers, task.task_id)
    with task.device():
        step = v1.train.get_or_create_global_step()
        optimizer = sync_replicas.make_kfac(worker, PARAMS, layers, invert_every)
        train_op = optimizer.minimize(loss, global_step=step)
        fetches = plain_training.values_after(train_op, loss, accuracy)
    hooks = [optimizer.make_session_run_hook(task.is_chief)]
    if worker.computes_gradients:
        hooks = [replicate.SyncReplicasHook(optimizer, task.is_chief)]
    if last_step is not None:
        hooks.append(v1.train.StopAtStepHook(last_step=last_step))
    session = v1.train.MonitoredTrainingSession(
        task.master,
        task.is_chief,
        checkpoint_dir,
        hooks=hooks,
        config=v1.ConfigProto(allow_soft_placement=True),
        stop_grace_period_secs=1,
        log_step_count_steps=None,
    )
    return _last_accuracy(session, fetches, report_every=1)


def _last_accuracy(
    session: v1.train.MonitoredSession, fetches: dict[str, Any], report_every: int
) -> float:
    """Makes steps until the session ends, and returns the accuracy of the last one."""
    accuracy = math.nan
    with session:
        for values in plain_training.steps(session, fetches, lambda n: n % report_every == 0):
            accuracy = float(values["accuracy"])
    return accuracy
