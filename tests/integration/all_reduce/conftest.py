"""Workers without parameter servers: each is a thread with a server, a graph and a session.

TensorFlow cannot stop a server, so that the tests of a module share some.
"""

import copy
import functools
import itertools
import threading

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.estimator.cluster import meeting, metric_exchange, servers, watchdog
from replicate.estimator.cluster_config import ClusterConfig
from replicate.launch.plan import free_ports

v1 = tf.compat.v1

SECS = 60


@pytest.fixture(autouse=True)
def quick_checks(monkeypatch):
    """Workers that wait for each other look again soon."""
    for module in (meeting, metric_exchange, watchdog):
        monkeypatch.setattr(module, "POLL_SECS", 0.05)
    monkeypatch.setattr(servers, "_SHORTEST_POLL_SECS", 0.02)


class Variables(v1.train.SessionRunHook):
    """Keeps all variables as they are at the end."""

    def begin(self):
        self._variables = {each.op.name: each.read_value() for each in v1.global_variables()}

    def end(self, session):
        self.values = session.run(self._variables)


class Workers:
    """Trains and evaluates on several workers, and in one process.

    Attributes:
      X, IDS, Y: Features and labels of twelve rows.
      TOWERS: The devices of two towers.
      ONE: The device of one tower.
    """

    _random = np.random.RandomState(0)
    X = _random.randn(12, 5).astype(np.float32)
    IDS = _random.randint(0, 6, 12).astype(np.int64)
    Y = (X @ np.arange(1, 6) + 0.1 * IDS).astype(np.float32)[:, None]
    TOWERS = ("/cpu:0", "/cpu:1")
    ONE = ("/cpu:0",)

    def __init__(self):
        self.shared = functools.cache(self.new)

    def new(self, count):
        """Returns the roles of the workers of a new cluster, the chief first."""
        addresses = tuple(f"127.0.0.1:{port}" for port in free_ports(count))
        jobs = {"chief": addresses[:1], "worker": addresses[1:]}
        rest = [ClusterConfig(jobs, "worker", index) for index in range(count - 1)]
        return [ClusterConfig(jobs, "chief", 0), *rest]

    def rows(self, start, stop):
        return {"x": self.X[start:stop], "ids": self.IDS[start:stop]}, self.Y[start:stop]

    def parts(self, *bounds):
        """Returns an input_fn for each worker, with rows from one bound to the next."""
        return [
            lambda pair=pair: tf.data.Dataset.from_tensors(self.rows(*pair)).repeat()
            for pair in itertools.pairwise(bounds)
        ]

    def model(self, optimizer=lambda: v1.train.MomentumOptimizer(0.002, 0.9), **settings):
        """Returns a model_fn with a sparse gradient and an average that each batch updates."""

        def model_fn(features, labels, mode):
            table = v1.get_variable("table", [6, 3], initializer=v1.constant_initializer(0.2))
            kernel = v1.get_variable("kernel", initializer=tf.eye(8, 4) + 0.1)
            out = v1.get_variable("out", [4, 1], initializer=v1.constant_initializer(0.3))
            found = tf.nn.embedding_lookup(table, features["ids"])
            hidden = tf.tanh(tf.matmul(tf.concat([features["x"], found], axis=1), kernel))
            average = v1.get_variable("average", initializer=tf.zeros([4]), trainable=False)
            fold = v1.assign_sub(average, 0.1 * (average - tf.reduce_mean(hidden, axis=0)))
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, fold)
            loss = tf.reduce_mean(tf.square(tf.matmul(hidden, out) - labels))
            wrapped = replicate.TowerOptimizer(optimizer, **settings)
            with v1.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
                train_op = wrapped.minimize(loss, v1.train.get_global_step())
            return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

        return model_fn

    def estimator(self, model_fn, folder, role=None, settings=None, **others):
        options = v1.ConfigProto(allow_soft_placement=True, device_count={"CPU": 2})
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        config = replicate.RunConfig(
            progress="off",
            session_config=options,
            # As processes do, workers have outer optimizers of their own: one that threads share
            # keeps tensors of the graph that came last.
            train_distribute=copy.deepcopy(settings)
            or replicate.AllReduce(timeout_secs=10, check_every=3),
            **({} if role is None else {"cluster": role}),
            **{"save_checkpoints_steps": 1000, **others},
        )
        return replicate.Estimator(model_fn, str(folder), config)

    def train(
        self, model_fn, input_fn, folder, role=None, max_steps=8, hooks=(), settings=None, **towers
    ):
        """Trains in this thread. Returns all variables.

        Of the arguments in `towers`, save_checkpoints_steps is for the RunConfig.
        """
        kept = Variables()
        others = {key: towers.pop(key) for key in ("save_checkpoints_steps",) if key in towers}
        if towers.setdefault("devices", self.ONE) is not None:
            model_fn = replicate.replicate_model_fn(model_fn, **towers)
        estimator = self.estimator(model_fn, folder, role, settings, **others)
        estimator.train(input_fn, max_steps=max_steps, hooks=[kept, *hooks])
        return kept.values

    def train_together(self, model_fn, inputs, folder, roles=None, hook=None, **others):
        """Trains one worker on each input. Returns their variables, or the errors that they raise.

        `hook` makes a hook of a role.
        """

        def work(role, input_fn):
            hooks = [hook(role)] if hook else []
            return self.train(model_fn, input_fn, folder, role, hooks=hooks, **others)

        return self.at_once(work, roles or self.shared(len(inputs)), inputs)

    def at_once(self, function, *arguments):
        """Calls a function in threads, as `map` does. Returns its results, or the errors."""

        def call(place, each):
            try:
                results[place] = function(*each)
            except BaseException as error:
                results[place] = error

        calls = list(enumerate(zip(*arguments, strict=True)))
        results = [None] * len(calls)
        threads = [threading.Thread(target=call, args=each, daemon=True) for each in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECS)
        assert not any(thread.is_alive() for thread in threads)
        return results

    def only(self, found):
        """Returns the variables of all workers, which are equal to the bit."""
        for each in found:
            if isinstance(each, BaseException):
                raise each
            assert each.keys() == found[0].keys()
            for name, value in found[0].items():
                np.testing.assert_array_equal(each[name], value, err_msg=name)
        return found[0]

    def assert_close(self, found, expected, tolerance=1e-6):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            atol = tolerance * max(1.0, np.abs(value).max())
            np.testing.assert_allclose(found[name], value, rtol=0, atol=atol, err_msg=name)


@pytest.fixture(scope="module")
def workers():
    """Workers whose servers the tests of a module share."""
    return Workers()
