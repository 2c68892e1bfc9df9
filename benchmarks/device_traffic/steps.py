"""Training steps whose traffic is measured: graphs of towers on GPUs, built on any machine.

While such a graph is built, TensorFlow's list of devices has the GPUs. No session can run it on a
machine without them.
"""

import contextlib
import dataclasses
import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from unittest import mock

import tensorflow as tf

import kfac
import model_deploy
import replicate
from benchmarks.device_traffic.traffic import Traffic, measure
from benchmarks.tower_step.tower_models import mean_cross_entropy
from examples import convnet_model
from examples.slim.networks import factory
from replicate.estimator.session_options import begin_graph

v1 = tf.compat.v1

BATCH_PER_TOWER = 32
SIDE = 28
WORDS = 8
TABLE = (10_000, 32)
"""Rows and width of the embedding table."""
_RATE = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """Settings of a training step.

    Attributes:
      optimizer: Makes the optimizer.
      model: Returns the loss of a tower, from its features and labels.
      images: True for images as features, False for words.
      settings: Arguments of `TowerOptimizer`.
      variables: Argument of `replicate_model_fn`.
      reduction: Argument of `replicate_model_fn`.
      judged: True to hand each tower's batch to K-FAC, which judges its steps by it.
    """

    optimizer: Callable[[], Any]
    model: Callable[[Any, Any], Any]
    images: bool = True
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    variables: str = "local"
    reduction: str = "last"
    judged: bool = False


@contextlib.contextmanager
def gpu_graph(gpus: int) -> Iterator[Any]:
    """Makes a graph for so many GPUs the default one and yields it.

    It begins like an Estimator's graph, with a global step on the CPU. Conditionals are made of
    `Switch` and `Merge`, as TensorFlow has them when it places a graph.
    """
    with _control_flow_in_graph(), _listed_gpus(gpus), tf.Graph().as_default() as graph:
        begin_graph(replicate.RunConfig())
        yield graph


@contextlib.contextmanager
def _listed_gpus(count: int) -> Iterator[None]:
    """Adds GPUs to TensorFlow's list of visible devices."""
    gpus = [
        tf.config.PhysicalDevice(f"/physical_device:GPU:{index}", "GPU") for index in range(count)
    ]
    visible, configuration = (
        tf.config.get_visible_devices,
        tf.config.get_logical_device_configuration,
    )

    def devices(kind: str | None = None) -> list[Any]:
        others = [device for device in visible(kind) if device.device_type != "GPU"]
        return [*others, *gpus] if kind in (None, "GPU") else others

    def logical(device: Any) -> Any:
        return None if device in gpus else configuration(device)

    with (
        mock.patch.object(tf.config, "get_visible_devices", devices),
        mock.patch.object(tf.config, "get_logical_device_configuration", logical),
    ):
        yield


@contextlib.contextmanager
def _control_flow_in_graph() -> Iterator[None]:
    """Makes conditionals of `Switch` and `Merge`, as TensorFlow does before it places a graph."""
    was_functional = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        if was_functional:
            v1.enable_control_flow_v2()


def traffic(
    name: str, towers: int, *, with_summaries: bool = False, with_inverses: bool = True
) -> Traffic:
    """Builds the graph of a step, one of `NAMES`, and returns its traffic.

    Each tower or clone has its own GPU. `with_inverses` is for a step in which K-FAC computes new
    inverses.
    """
    build = _clones if name == CLONES else functools.partial(_towers, STEPS[name])
    with gpu_graph(towers) as graph:
        fetches = build(towers)
        if with_summaries:
            fetches += [summary.op for summary in v1.get_collection(v1.GraphKeys.SUMMARIES)]
        operations = graph.get_operations()
        if with_inverses:
            return measure(operations, fetches)
        return measure(operations, fetches, rare=_is_of_inverses)


def step_traffic(step: Step, towers: int, scope: str) -> Traffic:
    """Builds the graph of a step with towers, each on its own GPU, and returns its traffic.

    Only tensors that operations in the name scope need count as transfers.
    """
    with gpu_graph(towers) as graph:
        fetches = _towers(step, towers)
        return measure(graph.get_operations(), fetches, scope)


def _is_of_inverses(tensor: Any) -> bool:
    """Returns whether a tensor is dead in a step that computes no new inverses."""
    is_chosen = tensor.op.type == "Switch" and tensor.value_index == 1
    return is_chosen and any(name in tensor.op.name for name in ("update_inverses/", "known_after"))


def _towers(step: Step, count: int) -> list[Any]:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        optimizer = replicate.TowerOptimizer(step.optimizer, **step.settings)
        loss = step.model(features, labels)
        if step.judged:
            optimizer.wrapped.add_tower_batch((features, labels))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    replicated = replicate.replicate_model_fn(
        model_fn,
        v1.losses.Reduction.MEAN,
        [f"/gpu:{index}" for index in range(count)],
        variables=step.variables,
        reduction=step.reduction,
    )
    spec = replicated(*_batch(step.images, count), replicate.ModeKeys.TRAIN)
    return [spec.train_op, spec.loss.op]


def _clones(count: int) -> list[Any]:
    config = model_deploy.DeploymentConfig(num_clones=count)

    def model_fn(features: Any, labels: Any) -> None:
        v1.losses.add_loss(_convnet(features, labels))

    model = model_deploy.deploy(
        config,
        model_fn,
        _batch(images=True, towers=1),
        optimizer=v1.train.MomentumOptimizer(_RATE, 0.9),
    )
    return [model.train_op.op]


def _batch(images: bool, towers: int) -> tuple[Any, Any]:
    """Returns features and labels of a batch, on the CPU."""
    rows = BATCH_PER_TOWER * towers
    with v1.device(model_deploy.canonical_device("cpu:0")):
        features = (
            v1.placeholder(tf.float32, [rows, SIDE, SIDE, 1], "images")
            if images
            else v1.placeholder(tf.int32, [rows, WORDS], "words")
        )
        return features, v1.placeholder(tf.int32, [rows], "labels")


def _convnet(images: Any, labels: Any) -> Any:
    return convnet_model.mean_loss(convnet_model.build_model(images), labels)


def _registered_convnet(approx: str = "kron") -> Callable[[Any, Any], Any]:
    def model(images: Any, labels: Any) -> Any:
        net = convnet_model.build_model(images)
        convnet_model.register(kfac.graph_layer_collection(), net, {"approx": approx})
        return convnet_model.mean_loss(net, labels)

    return model


def _registered_dense(images: Any, labels: Any) -> Any:
    layers = kfac.graph_layer_collection()
    inputs = tf.reshape(images, [-1, SIDE * SIDE])
    for name, units in (("hidden", 64), ("logits", 10)):
        layer = convnet_model.linear_layer(name, inputs, units)
        layers.register_fully_connected((layer.weights, layer.bias), layer.inputs, layer.outputs)
        inputs = tf.nn.relu(layer.outputs)
    layers.register_categorical_predictive_distribution(layer.outputs, name="logits")
    return mean_cross_entropy(layer.outputs, labels)


def _embedding(words: Any, labels: Any) -> Any:
    table = v1.get_variable("table", TABLE)
    vectors = tf.reduce_mean(tf.nn.embedding_lookup(table, words), axis=1)
    return mean_cross_entropy(convnet_model.linear_layer("logits", vectors, 10).outputs, labels)


def _registered_embedding(words: Any, labels: Any) -> Any:
    layers = kfac.graph_layer_collection()
    table = v1.get_variable("table", TABLE)
    first = words[:, 0]
    vectors = tf.nn.embedding_lookup(table, first)
    layers.register_fully_connected(table, first, vectors, dense_inputs=False)
    layer = convnet_model.linear_layer("logits", vectors, 10)
    layers.register_fully_connected((layer.weights, layer.bias), layer.inputs, layer.outputs)
    layers.register_categorical_predictive_distribution(layer.outputs, name="logits")
    return mean_cross_entropy(layer.outputs, labels)


def _network(name: str, classes: int, registered: bool = False) -> Callable[[Any, Any], Any]:
    """Returns the model of a network of `examples.slim`."""

    def model(images: Any, labels: Any) -> Any:
        network = factory.get_network_fn(name, classes, is_training=True)
        logits, _ = network(tf.tile(images, [1, 1, 1, 3]))
        if registered:
            layers = kfac.graph_layer_collection()
            layers.register_categorical_predictive_distribution(logits, name="logits")
            layers.auto_register_layers()
        return mean_cross_entropy(logits, labels)

    return model


def _momentum() -> Any:
    return v1.train.MomentumOptimizer(_RATE, 0.9)


def _kfac(**arguments: Any) -> Callable[[], Any]:
    """Returns a maker of periodic K-FAC."""
    given = {"learning_rate": _RATE, "damping": 0.03, "invert_every": 10, **arguments}

    def make() -> Any:
        return kfac.PeriodicInvCovUpdateKfacOpt(
            layer_collection=kfac.graph_layer_collection(), **given
        )

    return make


_QMODEL = {"momentum_type": "qmodel", "learning_rate": None, "momentum": None}
_ADAPTED = {
    **_QMODEL,
    "invert_every": 5,
    "adapt_damping": True,
    "calibrate_damping": True,
    "loss_fn": lambda batch: _convnet(*batch),
}
_SCALED = {"loss_scale": replicate.DynamicLossScale()}

_REGULAR = _kfac(momentum_type="regular")

STEPS: Mapping[str, Step] = types.MappingProxyType(
    {
        "momentum": Step(optimizer=_momentum, model=_convnet),
        "momentum, variables in turn": Step(
            optimizer=_momentum, model=_convnet, variables="round_robin"
        ),
        "clipped": Step(optimizer=_momentum, model=_convnet, settings={"clip_norm": 1.0}),
        "accumulated, loss scale": Step(
            optimizer=_momentum, model=_convnet, settings={"accumulate_steps": 4, **_SCALED}
        ),
        "skipping": Step(optimizer=_momentum, model=_convnet, settings={"skip_nonfinite": 3}),
        "embedding": Step(optimizer=_momentum, model=_embedding, images=False),
        "embedding, variables in turn": Step(
            optimizer=_momentum, model=_embedding, images=False, variables="round_robin"
        ),
        "batch norm": Step(optimizer=_momentum, model=_network("cifarnet", 10)),
        "kfac": Step(optimizer=_REGULAR, model=_registered_convnet()),
        "kfac, variables in turn": Step(
            optimizer=_REGULAR, model=_registered_convnet(), variables="round_robin"
        ),
        "kfac, qmodel": Step(optimizer=_kfac(**_QMODEL), model=_registered_convnet()),
        "kfac, adapted damping": Step(
            optimizer=_kfac(**_ADAPTED), model=_registered_convnet(), judged=True
        ),
        "kfac, ekfac": Step(optimizer=_kfac(), model=_registered_convnet("ekfac")),
        "kfac, dense kron": Step(optimizer=_kfac(), model=_registered_dense),
        "kfac, embedding": Step(optimizer=_kfac(), model=_registered_embedding, images=False),
        "kfac, resnet_v1_50": Step(
            optimizer=_REGULAR, model=_network("resnet_v1_50", 1000, registered=True)
        ),
        "kfac, accumulated": Step(
            optimizer=_kfac(), model=_registered_convnet(), settings={"accumulate_steps": 4}
        ),
    }
)
"""Steps of replicated towers, by name."""

REDUCED: Mapping[str, Step] = types.MappingProxyType(
    {
        "convnet": Step(optimizer=_momentum, model=_convnet),
        "resnet_v1_50": Step(optimizer=_momentum, model=_network("resnet_v1_50", 1000)),
    }
)
"""Steps for which reductions of gradients are compared, by model."""

CLONES = "clones"
"""Name of the step of `model_deploy`."""

NAMES = (*STEPS, CLONES)
"""Names of all steps."""


def check_names(names: Iterable[str]) -> None:
    """Checks names of steps.

    Raises:
      SystemExit: There is no step of that name.
    """
    for name in names:
        if name not in NAMES:
            raise SystemExit(f"There is no step {name!r}. Accepted are {', '.join(NAMES)}.")
