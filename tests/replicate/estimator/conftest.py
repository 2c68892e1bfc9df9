"""The linear model that these tests train, and its twin in NumPy.

Child processes load this file too (see `stub`), so that parent and child train the same model.
"""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator import Estimator, RunConfig
from replicate.estimator.cluster import recovery
from replicate.estimator.cluster import servers as servers_module
from replicate.estimator.cluster_config import ClusterConfig
from replicate.launch.plan import free_ports
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1

ROWS, BATCH, RATE, MOMENTUM = 12, 4, 0.05, 0.9
_random = np.random.RandomState(0)
X = _random.randn(ROWS, 3).astype(np.float32)
Y = (X @ [[1.0], [-2.0], [0.5]] + 0.1 * _random.randn(ROWS, 1)).astype(np.float32)


def model_fn(features, labels, mode, params):
    """A linear layer with a squared error, trained by momentum."""
    weights = v1.get_variable("w", [3, 1], initializer=v1.zeros_initializer())
    bias = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
    outputs = tf.matmul(features, weights) + bias
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"y": outputs, "double": 2 * outputs})
    loss = tf.reduce_mean(tf.square(outputs - labels))
    optimizer = v1.train.MomentumOptimizer(params.get("rate", RATE), MOMENTUM)
    return EstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, global_step=v1.train.get_global_step()),
        eval_metric_ops={"mae": v1.metrics.mean_absolute_error(labels, outputs)},
    )


def input_fn():
    """Batches of 4 in order, for ever."""
    return tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(BATCH)


def shuffled_input_fn():
    """Batches of 4 in an order that depends on every batch before."""
    return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS).repeat().batch(BATCH)


def once_input_fn():
    """Every row once, in batches of 5, 5 and 2."""
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)


def trained(steps):
    """Weights and biases that NumPy reaches after some steps of `input_fn`."""
    parameters = np.zeros([4, 1], np.float32)
    velocity = np.zeros_like(parameters)
    inputs = np.hstack([X, np.ones([ROWS, 1], np.float32)])
    for step in range(steps):
        rows = np.arange(step * BATCH, (step + 1) * BATCH) % ROWS
        errors = inputs[rows] @ parameters - Y[rows]
        velocity = MOMENTUM * velocity + 2 * inputs[rows].T @ errors / BATCH
        parameters = parameters - RATE * velocity
    return parameters[:3], parameters[3]


def make_estimator(model_dir, model_fn=model_fn, params=None, **settings):
    """An Estimator of the linear model that shows no progress and runs its graph as it is built.

    TensorFlow would take longer to optimize such a graph than to run it. In a cluster the options
    of the session are the default ones.
    """
    config = RunConfig(**{"progress": "off", "save_checkpoints_steps": 5, **settings})
    if config.session_config is None:
        options = v1.ConfigProto(allow_soft_placement=True)
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        config = config.replace(session_config=options)
    return Estimator(model_fn, str(model_dir), config, params)


class CallHook(v1.train.SessionRunHook):
    """Calls a function with the number of steps that are done, after each step."""

    def __init__(self, function):
        self.function = function

    def begin(self):
        self.global_step = v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        self.function(int(run_context.session.run(self.global_step)))


class Clock:
    """A clock that only sleeping moves on; an event may happen during a nap."""

    def __init__(self, event=lambda: None, at=math.inf):
        self.now = 0.0
        self._event, self._at = event, at

    def monotonic(self):
        """Returns the time."""
        return self.now

    def sleep(self, secs):
        """Moves on the time, and lets the event happen if it is due."""
        is_before = self.now < self._at
        self.now += secs
        if is_before and self.now >= self._at:
            self._event()


def values(estimator):
    """All variables of the newest checkpoint."""
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


@pytest.fixture(scope="session")
def linear():
    """The linear model and what belongs to it."""
    return SimpleNamespace(**globals())


@pytest.fixture(scope="session")
def servers():
    """The jobs of servers that this process runs for all tests: each would leave threads behind."""
    addresses = (f"127.0.0.1:{port}" for port in free_ports(4))
    counts = {"chief": 1, "worker": 1, "ps": 2}
    jobs = {job: tuple(itertools.islice(addresses, number)) for job, number in counts.items()}
    options = v1.ConfigProto(device_count={"CPU": 2})
    spec = {job: list(tasks) for job, tasks in jobs.items()}
    started = [
        tf.distribute.Server(spec, job_name=job, task_index=task, config=options)
        for job in jobs
        for task in range(counts[job])
    ]
    yield jobs
    del started


@pytest.fixture
def roles(servers, monkeypatch):
    """Roles of those servers by job and index, in a cluster that holds nothing of other tests.

    Who waits for one of them looks again soon.
    """
    for module in (recovery, servers_module):
        monkeypatch.setattr(module, "POLL_SECS", 0.02)
    monkeypatch.setattr(recovery, "CHIEF_POLL_SECS", 0.02)
    monkeypatch.setattr(recovery, "MAX_PAUSE_SECS", 0.1)
    for address in itertools.chain(*servers.values()):
        v1.Session.reset(f"grpc://{address}")
    return {
        (job, task): ClusterConfig(servers, job, task)
        for job, tasks in servers.items()
        for task in range(len(tasks))
    }


_PRELUDE = """
import runpy, sys, types
linear = types.SimpleNamespace(**runpy.run_path(sys.argv[1]))
"""


@pytest.fixture
def stub(start_python):
    """Runs a script in a child process, with this file loaded as `linear`; ends the child."""
    children = []

    def start(script, *arguments):
        children.append(start_python(_PRELUDE + script, __file__, *arguments))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.close()
