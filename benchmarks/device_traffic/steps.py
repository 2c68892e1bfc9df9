"""Training steps whose traffic is measured: graphs of towers on GPUs, built on any machine.

While such a graph is built, TensorFlow's list of devices has the GPUs. No session can run it on a
machine without them.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import tensorflow as tf

import kfac
import model_deploy
import replicate
from benchmarks.device_traffic.traffic import Traffic, measure
from benchmarks.session_programs import mean_cross_entropy
from examples import convnet_model
from examples.slim.networks import factory
from replicate.estimator.session_options import begin_graph

v1 = tf.compat.v1

BATCH_PER_TOWER = 32
SIDE = 28
TABLE = (10_000, 32)
"""Rows and width of the embedding table."""
WORDS = {"embedding": 8, "one word": 1}
"""Words of an example, by model that looks them up in the table; the others take images."""
_RATE = 0.01
_DAMPING = {"learning_rate": _RATE, "damping": 0.03, "invert_every": 10}
_QMODEL = {**_DAMPING, "momentum_type": "qmodel", "learning_rate": None, "momentum": None}
_ADAPTED = {**_QMODEL, "invert_every": 5, "adapt_damping": True, "calibrate_damping": True}


@dataclasses.dataclass(frozen=True)
class Step:
    """Settings of a training step.

    Attributes:
      model: Name of a model, see `_logits`.
      kfac: Arguments of K-FAC, or None for momentum SGD. If it adapts the damping, it judges its
        steps by the batch of each tower.
      placed: Arguments `variables` and `reduction` of `replicate_model_fn`.
      settings: Arguments of `TowerOptimizer`.
      approximation: K-FAC's approximation of convolutions.
    """

    model: str
    kfac: Mapping[str, Any] | None = None
    placed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    approximation: str = "kron"

    def loss(self, features: Any, labels: Any) -> Any:
        """Returns the mean cross entropy of a tower, whose layers it registers for K-FAC."""
        logits = _logits(self.model, features)
        if self.kfac:
            layers = kfac.graph_layer_collection()
            layers.set_default_conv2d_approximation(self.approximation)
            layers.register_categorical_predictive_distribution(logits, name="logits")
            layers.auto_register_layers()
        return mean_cross_entropy(logits, labels)

    def optimizer(self) -> Any:
        """Returns a new optimizer."""
        if self.kfac is None:
            return v1.train.MomentumOptimizer(_RATE, 0.9)
        layers = kfac.graph_layer_collection()
        judge = {"loss_fn": self._loss_again} if self.is_judged else {}
        return kfac.PeriodicInvCovUpdateKfacOpt(layer_collection=layers, **self.kfac, **judge)

    @property
    def is_judged(self) -> bool:
        """True if K-FAC adapts the damping."""
        return bool(self.kfac and self.kfac.get("adapt_damping"))

    def _loss_again(self, batch: tuple[Any, Any]) -> Any:
        return mean_cross_entropy(_logits(self.model, batch[0]), batch[1])


def traffic(step: str | Step, towers: int, scope: str = "", inverses: bool = True) -> Traffic:
    """Builds the graph of a step and returns its traffic.

    Args:
      step: One of `NAMES`, or settings.
      towers: Number of towers or clones, each on a GPU of its own.
      scope: Only tensors that operations in this name scope need count as transfers.
      inverses: True for a step in which K-FAC computes new inverses.
    """
    with _gpu_graph(towers) as graph:
        if step == CLONES:
            fetches = _clones(towers)
        else:
            fetches = _towers(STEPS[step] if isinstance(step, str) else step, towers)
        operations = graph.get_operations()
        return measure(operations, fetches, scope, *([] if inverses else [_is_of_inverses]))


def _is_of_inverses(tensor: Any) -> bool:
    """Returns whether a tensor is dead in a step that computes no new inverses."""
    is_chosen = tensor.op.type == "Switch" and tensor.value_index == 1
    return is_chosen and any(name in tensor.op.name for name in ("update_inverses/", "known_after"))


@contextlib.contextmanager
def _gpu_graph(gpus: int) -> Iterator[Any]:
    """Makes a graph for so many GPUs the default one and yields it.

    It begins like an Estimator's graph, with a global step on the CPU. Conditionals are made of
    `Switch` and `Merge`, as TensorFlow has them when it places a graph.
    """
    was_functional = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with _listed_gpus(gpus), tf.Graph().as_default() as graph:
            begin_graph(replicate.RunConfig())
            yield graph
    finally:
        if was_functional:
            v1.enable_control_flow_v2()


@contextlib.contextmanager
def _listed_gpus(count: int) -> Iterator[None]:
    """Adds GPUs to TensorFlow's list of visible devices."""
    gpus = [tf.config.PhysicalDevice(f"/physical_device:GPU:{n}", "GPU") for n in range(count)]
    listed, configured = tf.config.get_visible_devices, tf.config.get_logical_device_configuration

    def visible(kind: str | None = None) -> list[Any]:
        others = [device for device in listed(kind) if device.device_type != "GPU"]
        return [*others, *gpus] if kind in (None, "GPU") else others

    def configuration(device: Any) -> Any:
        return None if device in gpus else configured(device)

    with (
        mock.patch.object(tf.config, "get_visible_devices", visible),
        mock.patch.object(tf.config, "get_logical_device_configuration", configuration),
    ):
        yield


def _towers(step: Step, count: int) -> list[Any]:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        optimizer = replicate.TowerOptimizer(step.optimizer, **step.settings)
        loss = step.loss(features, labels)
        if step.is_judged:
            optimizer.wrapped.add_tower_batch((features, labels))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    devices, mean = [f"/gpu:{index}" for index in range(count)], v1.losses.Reduction.MEAN
    replicated = replicate.replicate_model_fn(model_fn, mean, devices, **step.placed)
    spec = replicated(*_batch(step.model, count), replicate.ModeKeys.TRAIN)
    return [spec.train_op, spec.loss.op]


def _clones(count: int) -> list[Any]:
    step = Step("convnet")

    def model_fn(features: Any, labels: Any) -> None:
        v1.losses.add_loss(step.loss(features, labels))

    config, batch = model_deploy.DeploymentConfig(num_clones=count), _batch("convnet", 1)
    return [model_deploy.deploy(config, model_fn, batch, optimizer=step.optimizer()).train_op.op]


def _batch(model: str, towers: int) -> tuple[Any, Any]:
    """Returns features and labels of a batch, on the CPU."""
    rows, words = BATCH_PER_TOWER * towers, WORDS.get(model)
    kind, shape = (tf.int32, [words]) if words else (tf.float32, [SIDE, SIDE, 1])
    with v1.device(model_deploy.canonical_device("cpu:0")):
        features = v1.placeholder(kind, [rows, *shape], "features")
        return features, v1.placeholder(tf.int32, [rows], "labels")


def _logits(model: str, features: Any) -> Any:
    """Returns the logits of a model: "convnet", "dense", one of `WORDS`, or a network of slim."""
    if model == "convnet":
        return convnet_model.build_model(features).linear.outputs
    if model == "dense":
        flat = tf.reshape(features, [-1, SIDE * SIDE])
        features = tf.nn.relu(convnet_model.linear_layer("hidden", flat, 64).outputs)
    elif model == "embedding":
        table = v1.get_variable("table", TABLE)
        features = tf.reduce_mean(tf.nn.embedding_lookup(table, features), axis=1)
    elif model == "one word":
        features = tf.nn.embedding_lookup(v1.get_variable("table", TABLE), features[:, 0])
    else:
        network = factory.get_network_fn(model, CLASSES[model], is_training=True)
        return network(tf.tile(features, [1, 1, 1, 3]))[0]
    return convnet_model.linear_layer("logits", features, 10).outputs


_REGULAR = {**_DAMPING, "momentum_type": "regular"}
_IN_TURN = {"variables": "round_robin"}
_SUMMED = {"accumulate_steps": 4}
_SCALED = {**_SUMMED, "loss_scale": replicate.DynamicLossScale()}
CLASSES = {"cifarnet": 10, "resnet_v1_50": 1000}
"""Classes of the networks of slim, by name."""
STEPS: Mapping[str, Step] = {
    "momentum": Step("convnet"),
    "momentum, variables in turn": Step("convnet", placed=_IN_TURN),
    "clipped": Step("convnet", settings={"clip_norm": 1.0}),
    "accumulated, loss scale": Step("convnet", settings=_SCALED),
    "skipping": Step("convnet", settings={"skip_nonfinite": 3}),
    "embedding": Step("embedding"),
    "embedding, variables in turn": Step("embedding", placed=_IN_TURN),
    "batch norm": Step("cifarnet"),
    "kfac": Step("convnet", _REGULAR),
    "kfac, variables in turn": Step("convnet", _REGULAR, _IN_TURN),
    "kfac, qmodel": Step("convnet", _QMODEL),
    "kfac, adapted damping": Step("convnet", _ADAPTED),
    "kfac, ekfac": Step("convnet", _DAMPING, approximation="ekfac"),
    "kfac, dense kron": Step("dense", _DAMPING),
    "kfac, embedding": Step("one word", _DAMPING),
    "kfac, resnet_v1_50": Step("resnet_v1_50", _REGULAR),
    "kfac, accumulated": Step("convnet", _DAMPING, settings=_SUMMED),
}
"""Steps of replicated towers, by name."""

CLONES = "clones"
"""Name of the step of `model_deploy`."""

NAMES = (*STEPS, CLONES)
"""Names of all steps."""
