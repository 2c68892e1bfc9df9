"""A network with K-FAC's factors on several towers, saved and restored in two ways.

By what `Estimator.train` uses, and by a plain `Saver` of the same variables. Both work on the same
session and do the same at each end: one data file, no graph, one checkpoint kept. Who takes turns
when is the business of `benchmarks.checkpoint_time`.
"""

from typing import Any, Protocol

import tensorflow as tf

import kfac
import replicate
from benchmarks import harness
from benchmarks.tower_step import tower_models
from examples.slim.networks import factory
from replicate.estimator.checkpoint import restore_variables
from replicate.estimator.finite import FiniteVariablesListener
from replicate.estimator.saving import CheckpointHook, build_savers
from replicate.estimator.search import newest_checkpoint
from replicate.estimator.steps import StepReadings
from replicate.model_average import saved_objects

v1 = tf.compat.v1

CLASSES = 10


class Way(Protocol):
    """A way to save a session and to restore it; made and used where its graph is the default."""

    def save(self) -> None:
        """Saves all variables under the present step."""

    def restore(self) -> None:
        """Loads what was saved last into the session."""

    def find_and_restore(self) -> None:
        """Does the same without being told which checkpoint is the newest."""


class Trained:
    """A network in a graph and a session of its own, with what K-FAC remembers of it.

    Attributes:
      graph: Of towers and optimizer.
      session: With every variable initialized; no step is made.
      spec: Of the training.
      number_count: Numbers in all variables that are saved.
      variable_count: How many these are.
    """

    def __init__(self, network: str, side: int, towers: int) -> None:
        """Builds and initializes it.

        Args:
          network: One of `examples.slim.networks`.
          side: Of the images, in pixels; what is saved hardly depends on it.
          towers: As many logical CPU devices must there be.
        """
        model = tower_models.Network(network, side, 2 * towers)
        replicated = replicate.replicate_model_fn(
            _model_fn(network),
            v1.losses.Reduction.MEAN,
            harness.cpu_names(towers),
        )
        self.graph = tf.Graph()
        with self.graph.as_default():
            self._step = v1.train.create_global_step()
            features, labels = map(tf.constant, model.batch)
            self.spec = replicated(features, labels, replicate.ModeKeys.TRAIN)
            self._next_step = v1.assign_add(self._step, 1)
            variables = v1.global_variables()
            self.variable_count = len(variables)
            self.number_count = sum(variable.shape.num_elements() for variable in variables)
            initializer = v1.group(
                v1.global_variables_initializer(), v1.local_variables_initializer()
            )
        options = v1.ConfigProto(device_count={"CPU": towers}, allow_soft_placement=True)
        self.session = v1.Session(graph=self.graph, config=options)
        self.session.run(initializer)

    def advance(self) -> int:
        """Counts a step that changes nothing else; returns its number."""
        return int(self.session.run(self._next_step))


class EstimatorWay:
    """What `Estimator.train` uses, with its search for damage and for numbers that are not finite.

    The Estimator restores by `find_and_restore`.
    """

    def __init__(self, trained: Trained, folder: str) -> None:
        """Saves a first checkpoint into a folder."""
        config = replicate.RunConfig(
            model_dir=folder, keep_checkpoint_max=1, checkpoint_save_graph_def=False
        )
        readings = StepReadings(trained.spec.train_op, trained.spec.loss)
        self._trained = trained
        self._folder = folder
        savers = build_savers(v1.train.Scaffold(), None, config)
        self._saver = savers.variables
        self._hook = CheckpointHook(
            folder, savers, readings, config, listeners=[FiniteVariablesListener()]
        )
        self._hook.begin()
        self._hook.after_create_session(trained.session, None)

    def save(self) -> None:
        """Saves all variables under the present step, which must be a new one."""
        self._hook.end(self._trained.session)

    def restore(self) -> None:
        """Loads what was saved last."""
        self._load(self._hook.saved[1])

    def find_and_restore(self) -> None:
        """Looks for the newest checkpoint, reads all of it to see if it is whole, and loads it."""
        path = newest_checkpoint(self._folder)
        if path is None:
            raise RuntimeError(f"{self._folder} holds no checkpoint, though one was saved there.")
        self._load(path)

    def _load(self, path: str) -> None:
        restore_variables(self._trained.session, self._saver, path)


class PlainWay:
    """A `tf.compat.v1.train.Saver` of the same variables."""

    def __init__(self, trained: Trained, folder: str) -> None:
        """Saves a first checkpoint into a folder."""
        self._session = trained.session
        self._folder = folder
        self._path = ""
        self._saver = v1.train.Saver(saved_objects(), max_to_keep=1)
        self._step = v1.train.get_global_step()
        self.save()

    def save(self) -> None:
        """Saves all variables under the present step."""
        self._path = self._saver.save(
            self._session, f"{self._folder}/model.ckpt", self._step, write_meta_graph=False
        )

    def restore(self) -> None:
        """Loads what was saved last."""
        self._saver.restore(self._session, self._path)

    def find_and_restore(self) -> None:
        """Loads the checkpoint that the state file calls the newest."""
        self._saver.restore(self._session, v1.train.latest_checkpoint(self._folder))


class Timed:
    """One of a way's doings, as `benchmarks.harness` takes it."""

    def __init__(self, way: Way, doing: str) -> None:
        """Takes the way and the name of its method."""
        self._do = getattr(way, doing)

    def run(self, steps: int) -> float:
        """Does it some times; returns the mean number of seconds that it took."""
        return harness.mean_seconds(self._do, steps)


def _model_fn(network: str) -> Any:
    network_fn = factory.get_network_fn(network, CLASSES, is_training=True)

    def model_fn(features: Any, labels: Any, mode: str) -> replicate.EstimatorSpec:
        logits, _ = network_fn(features)
        layers = kfac.graph_layer_collection()
        layers.set_default_scale_and_shift_approximation("diagonal")
        layers.register_categorical_predictive_distribution(logits, name="logits")
        layers.auto_register_layers()
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        optimizer = replicate.TowerOptimizer(
            lambda: kfac.PeriodicInvCovUpdateKfacOpt(
                learning_rate=0.01, damping=0.1, layer_collection=layers
            )
        )
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn
