"""Two ways of saving and restoring a network with K-FAC's factors on several towers.

`EstimatorWay` does what `Estimator.train` does, `PlainWay` uses a plain `Saver` of the same
variables. Both use the same session, write one data file without the graph, and keep one
checkpoint.
"""

from typing import Any, Protocol

import tensorflow as tf

import kfac
import replicate
from benchmarks import harness
from benchmarks.tower_step import tower_models
from examples.slim.networks import factory
from replicate.estimator.checkpoints.fallback import newest_checkpoint
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.checkpoints.reading import restore_variables
from replicate.estimator.hooks.finite import FiniteVariablesListener
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.saving import CheckpointHook, build_saver
from replicate.model_average import saved_objects

v1 = tf.compat.v1

CLASSES = 10


class Way(Protocol):
    """Way to save and restore a session. Construct and call it with its graph as default."""

    def save(self) -> None:
        """Saves all variables at the current step."""

    def restore(self) -> None:
        """Restores the last saved checkpoint by its path."""

    def find_and_restore(self) -> None:
        """Finds the newest checkpoint and restores it."""


class Trained:
    """Network with K-FAC's variables, in its own graph and session.

    Attributes:
      graph: Graph of towers and optimizer.
      session: Session with initialized variables. No step is run.
      spec: EstimatorSpec for training.
      number_count: Elements of all saved variables.
      variable_count: Number of saved variables.
    """

    def __init__(self, network: str, side: int, towers: int) -> None:
        """Builds the graph and initializes the variables.

        Args:
          network: Network of `examples.slim.networks`.
          side: Side of the images in pixels. It hardly changes the size of the checkpoint.
          towers: Number of towers. There must be as many logical CPU devices.
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
        """Increments the global step without training and returns it."""
        return int(self.session.run(self._next_step))


class EstimatorWay:
    """Saving and restoring as in `Estimator.train`.

    Saving includes the check for finite values, `find_and_restore` the check for damaged files.
    """

    def __init__(self, trained: Trained, folder: str) -> None:
        """Saves a first checkpoint to `folder`."""
        config = replicate.RunConfig(
            model_dir=folder, keep_checkpoint_max=1, checkpoint_save_graph_def=False
        )
        readings = StepReadings(trained.spec.train_op, trained.spec.loss)
        self._trained = trained
        self._folder = folder
        self._saver = build_saver(v1.train.Scaffold(), config)
        self._hook = CheckpointHook(
            FencedModelDir(folder),
            self._saver,
            readings,
            config,
            listeners=[FiniteVariablesListener()],
        )
        self._hook.begin()
        self._hook.after_create_session(trained.session, None)

    def save(self) -> None:
        """Saves all variables at the current step, which must be new."""
        self._hook.end(self._trained.session)

    def restore(self) -> None:
        """Restores the last saved checkpoint by its path."""
        self._load(self._hook.saved[1])

    def find_and_restore(self) -> None:
        """Finds the newest checkpoint, reads all of it to verify it, and restores it."""
        path = newest_checkpoint(self._folder)
        if path is None:
            raise RuntimeError(f"{self._folder} holds no checkpoint, though one was saved there.")
        self._load(path)

    def _load(self, path: str) -> None:
        restore_variables(self._trained.session, self._saver, path)


class PlainWay:
    """Plain `tf.compat.v1.train.Saver` of the same variables."""

    def __init__(self, trained: Trained, folder: str) -> None:
        """Saves a first checkpoint to `folder`."""
        self._session = trained.session
        self._folder = folder
        self._path = ""
        self._saver = v1.train.Saver(saved_objects(), max_to_keep=1)
        self._step = v1.train.get_global_step()
        self.save()

    def save(self) -> None:
        """Saves all variables at the current step."""
        self._path = self._saver.save(
            self._session, f"{self._folder}/model.ckpt", self._step, write_meta_graph=False
        )

    def restore(self) -> None:
        """Restores the last saved checkpoint by its path."""
        self._saver.restore(self._session, self._path)

    def find_and_restore(self) -> None:
        """Restores the newest checkpoint according to the state file."""
        self._saver.restore(self._session, v1.train.latest_checkpoint(self._folder))


class Timed:
    """Method of a `Way` as a `harness.Program`."""

    def __init__(self, way: Way, method: str) -> None:
        self._call = getattr(way, method)

    def run(self, steps: int) -> float:
        """Calls the method `steps` times and returns the mean seconds per call."""
        return harness.mean_seconds(self._call, steps)


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
