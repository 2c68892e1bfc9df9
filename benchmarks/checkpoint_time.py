"""Time to save and to restore a network with K-FAC's factors, also by a plain `Saver`.

Both write one data file without the graph, keep one checkpoint, and alternate in going first.

    python -m benchmarks.checkpoint_time --network=resnet_v1_50 --rounds=5
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from benchmarks import harness
from examples.lazy_module import LazyModule

tf = LazyModule("tensorflow")
v1 = LazyModule("tensorflow.compat.v1")
kfac = LazyModule("kfac")
replicate = LazyModule("replicate")
factory = LazyModule("examples.slim.networks.factory")
residual_networks = LazyModule("benchmarks.kfac_step.residual_networks")
session_programs = LazyModule("benchmarks.session_programs")
fallback = LazyModule("replicate.estimator.checkpoints.fallback")
fenced_model_dir = LazyModule("replicate.estimator.checkpoints.fenced_model_dir")
reading = LazyModule("replicate.estimator.checkpoints.reading")
finite = LazyModule("replicate.estimator.hooks.finite")
readings = LazyModule("replicate.estimator.hooks.readings")
saving = LazyModule("replicate.estimator.hooks.saving")
model_average = LazyModule("replicate.model_average")


WAYS = ("replicate", "plain Saver")
OPERATIONS = {"save": "save", "restore": "restore", "find, restore": "find_and_restore"}
"""Methods of `EstimatorWay` and `PlainWay`, by name in the table."""
CLASSES = 10

FLAGS = flags.FLAGS


class Trained:
    """Network with K-FAC's variables on towers, in a session in which no step is run.

    The side of the images, in pixels, hardly changes the size of the checkpoint. There must be as
    many logical CPU devices as towers.

    Attributes:
      graph: Graph of towers and optimizer.
      session: Session with initialized variables.
      spec: EstimatorSpec for training.
      variables: All saved variables.
    """

    def __init__(self, network: str, side: int, towers: int) -> None:
        mean, devices = v1.losses.Reduction.MEAN, harness.cpu_names(towers)
        replicated = replicate.replicate_model_fn(_model_fn(network), mean, devices)

        def build() -> Any:
            batch = tf.zeros([2 * towers, side, side, 3]), tf.zeros([2 * towers], tf.int32)
            self.spec = replicated(*batch, replicate.ModeKeys.TRAIN)
            self.variables = v1.global_variables()
            return v1.assign_add(v1.train.get_global_step(), 1)

        options = v1.ConfigProto(device_count={"CPU": towers}, allow_soft_placement=True)
        program = session_programs.SessionProgram(build, config=options)
        self.graph, self.session, self._next_step = program.graph, program.session, program.train

    @property
    def number_count(self) -> int:
        """Elements of all saved variables."""
        return sum(variable.shape.num_elements() for variable in self.variables)

    def advance(self) -> int:
        """Increments the global step without training and returns it."""
        return int(self.session.run(self._next_step))


class EstimatorWay:
    """Saving and restoring as in `Estimator.train`, with the graph as default.

    Saving includes the check for finite values, `find_and_restore` the check for damaged files.
    """

    def __init__(self, trained: Trained, folder: str) -> None:
        """Saves a first checkpoint to `folder`."""
        config = replicate.RunConfig(
            model_dir=folder, keep_checkpoint_max=1, checkpoint_save_graph_def=False
        )
        saver = saving.build_saver(v1.train.Scaffold(), config)
        read = readings.StepReadings(trained.spec.train_op, trained.spec.loss)
        directory = fenced_model_dir.FencedModelDir(folder)
        listeners = [finite.FiniteVariablesListener()]
        hook = saving.CheckpointHook(directory, saver, read, config, listeners=listeners)
        hook.begin()
        hook.after_create_session(trained.session, None)
        self.save: Callable[[], Any] = lambda: hook.end(trained.session)

        def restore(path: str | None = None) -> None:
            reading.restore_variables(trained.session, saver, path or hook.saved[1])

        self.restore: Callable[[], Any] = restore
        self.find_and_restore = lambda: restore(fallback.newest_checkpoint(folder))


class PlainWay:
    """Plain `tf.compat.v1.train.Saver` of the same variables, used like `EstimatorWay`."""

    def __init__(self, trained: Trained, folder: str) -> None:
        """Saves a first checkpoint to `folder`."""
        self._train = v1.train
        self._session, self._folder = trained.session, folder
        self._saver = self._train.Saver(model_average.saved_objects(), max_to_keep=1)
        self.save()

    def save(self) -> None:
        """Saves all variables at the current step."""
        path, step = f"{self._folder}/model.ckpt", self._train.get_global_step()
        self._path = self._saver.save(self._session, path, step, write_meta_graph=False)

    def restore(self) -> None:
        """Restores the last saved checkpoint by its path."""
        self._saver.restore(self._session, self._path)

    def find_and_restore(self) -> None:
        """Restores the newest checkpoint according to the state file."""
        self._saver.restore(self._session, self._train.latest_checkpoint(self._folder))


def _model_fn(network: str) -> Any:
    network_fn = factory.get_network_fn(network, CLASSES, is_training=True)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        logits, _ = network_fn(features)
        layers = kfac.graph_layer_collection()
        residual_networks.register(layers, logits)
        loss = session_programs.mean_cross_entropy(logits, labels)
        optimizer = replicate.TowerOptimizer(
            lambda: kfac.PeriodicInvCovUpdateKfacOpt(
                learning_rate=0.01, damping=0.1, layer_collection=layers
            )
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def measure(trained: Trained, rounds: int, folder: str) -> dict[str, dict[str, list[float]]]:
    """Returns the seconds of each round after an untimed one, by operation and by way."""
    folders = [tempfile.mkdtemp(dir=folder) for _ in WAYS]
    times: dict[str, dict[str, list[float]]] = {
        operation: {way: [] for way in WAYS} for operation in OPERATIONS
    }
    with trained.graph.as_default():
        both = [
            way(trained, path) for way, path in zip((EstimatorWay, PlainWay), folders, strict=True)
        ]
        ways = dict(zip(WAYS, both, strict=True))
        for turn in range(rounds + 1):
            trained.advance()
            for operation, method in OPERATIONS.items():
                for name in WAYS if turn % 2 else reversed(WAYS):
                    seconds = harness.mean_seconds(getattr(ways[name], method), 1)
                    times[operation][name] += [seconds] if turn else []
    return times


def lines(times: Mapping[str, Mapping[str, Sequence[float]]]) -> Iterator[str]:
    """Yields the lines of a table: seconds, and ratios by round."""
    rows = []
    for operation, by_way in times.items():
        series = [by_way[way] for way in WAYS]
        ratio = harness.spread(harness.ratios(*series), 2)
        rows.append([operation, *(harness.spread(each, 3) for each in series), ratio])
    return harness.table(("", *(f"{way}, s" for way in WAYS), "ratio"), rows)


def main(_: Sequence[str]) -> None:
    """Runs the benchmark, then prints and saves the results."""
    harness.divide_cpu(FLAGS.towers)
    trained = Trained(FLAGS.network, FLAGS.side, FLAGS.towers)
    with tempfile.TemporaryDirectory(dir=FLAGS.checkpoints) as folder:
        found = measure(trained, FLAGS.rounds, folder)
    variables = f"{len(trained.variables):,} variables, {trained.number_count:,} numbers"
    print(f"{FLAGS.network} with K-FAC, towers: {FLAGS.towers}; {variables}")
    print("\n".join(lines(found)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_string("network", "resnet_v1_50", "Network of examples.slim.networks.")
    flags.DEFINE_integer("side", 32, "Side of the images, in pixels.", lower_bound=1)
    flags.DEFINE_integer("towers", 2, "Number of towers.", lower_bound=1)
    flags.DEFINE_integer("rounds", 5, "Rounds of saving and restoring.", lower_bound=1)
    flags.DEFINE_string("checkpoints", None, "Folder of the checkpoints, removed at the end.")
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
