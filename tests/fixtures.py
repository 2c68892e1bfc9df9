"""Test-wide set-up: quiet TensorFlow, eight logical CPU devices for towers, repeatable draws.

It is a plugin of its own, because its import of TensorFlow takes seconds: see `conftest.py`.
"""

import gc
import importlib.util
import itertools
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import hypothesis
import numpy as np
import pytest
import tensorflow as tf

# The first import of this module puts it in the place of tf.compat.v1. It comes before the packages
# are imported, so that they and the tests have the same one, whose names tests replace.
import tensorflow.compat.v1

from replicate.estimator import run_config
from replicate.estimator.cluster import recovery
from replicate.estimator.cluster import servers as servers_module
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_settings import default_session_config
from replicate.launch.plan import free_ports
from tests.programs import Program, Server

hypothesis.settings.register_profile("repeatable", derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")

v1 = tf.compat.v1
LOGICAL_CPUS = 8
ROOT = Path(__file__).parents[1]

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * LOGICAL_CPUS,
)

# Most tests run a graph once or twice: optimizing it costs a fifth of their time. Sessions that are
# given a configuration, those of every Estimator among them, optimize their graphs as users' do.
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

# Full collections would visit all that TensorFlow's modules hold, again and again. They are also
# made a fifth as often: they find little but the graphs of the last tests.
gc.collect()
gc.freeze()
gc.set_threshold(700, 10, 50)


def pytest_collection_finish():
    """Full collections need not visit the modules of the tests, either."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """Skips tests that need a GPU where there is none."""
    if item.get_closest_marker("gpu") and not tf.config.list_physical_devices("GPU"):
        pytest.skip("no GPU: TensorFlow sees none")


@pytest.fixture(autouse=True)
def restored_environment():
    """The environment variables, as they were once the test is over.

    A program of examples/ sets those that choose its Keras, which later programs would find.
    """
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(autouse=True)
def repeatable_draws():
    """First weights of Keras, and other draws without a seed, which are the same in every run.

    Draws of graphs are not: see `graph`.
    """
    random.seed(0)
    np.random.seed(0)
    tf.random.set_seed(0)


@pytest.fixture
def seed(request):
    """Seed of random faults and inputs."""
    return request.config.getoption("--seed")


@pytest.fixture
def start_servers(monkeypatch):
    """Starts the servers of a cluster in this process, with two CPU devices each.

    Returns their roles, by name and index. Who waits for one of them looks again soon.
    """
    for module in (recovery, servers_module):
        monkeypatch.setattr(module, "POLL_SECS", 0.02)
    monkeypatch.setattr(recovery, "CHIEF_POLL_SECS", 0.02)
    monkeypatch.setattr(recovery, "MAX_PAUSE_SECS", 0.1)

    def start(**counts):
        left = (f"127.0.0.1:{port}" for port in free_ports(sum(counts.values())))
        jobs = {job: tuple(itertools.islice(left, number)) for job, number in counts.items()}
        roles = [ClusterConfig(jobs, job, task) for job in jobs for task in range(counts[job])]
        servers.extend(
            tf.distribute.Server(
                {job: list(tasks) for job, tasks in jobs.items()},
                job_name=role.task_type,
                task_index=role.task_id,
                config=tf.compat.v1.ConfigProto(device_count={"CPU": 2}),
            )
            for role in roles
        )
        return {(role.task_type, role.task_id): role for role in roles}

    servers = []
    return start


@pytest.fixture
def graph():
    """An empty graph whose draws are the same in every run, the default one while the test runs."""
    with tf.Graph().as_default() as graph:
        tf.compat.v1.set_random_seed(0)
        yield graph


@pytest.fixture(scope="session")
def evaluate():
    """Runs tensors of the default graph in a new session, which initialises all variables."""

    def run(fetches, feed=None):
        starts = v1.global_variables_initializer(), v1.local_variables_initializer()
        with v1.Session() as session:
            session.run([*starts, v1.tables_initializer()])
            return session.run(fetches, feed)

    return run


@pytest.fixture(scope="module")
def plain_sessions():
    """Makes Estimators run their graphs as they are, in all tests of a module."""

    def options(cluster):
        found = default_session_config(cluster) or v1.ConfigProto(allow_soft_placement=True)
        found.graph_options.rewrite_options.disable_meta_optimizer = True
        return found

    with mock.patch.object(run_config, "default_session_config", options):
        yield


@pytest.fixture
def own_log(caplog):
    """`caplog` without what TensorFlow says of an earlier test's objects when it collects them."""
    with caplog.filtering(lambda record: record.filename != "tf_should_use.py"):
        yield caplog


@pytest.fixture(scope="session")
def needs_git():
    """Skips a test on a machine without git."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")


@pytest.fixture(scope="session")
def start_python(request):
    """Starts a program in a new process, as `python -c` does."""
    shared = getattr(request.config, "workerinput", {}).get("programs")
    server = None if shared else Server()

    def start(program, *arguments, folder=".", environment=None, quick=False):
        return Program(
            shared or server.address,
            program=program,
            arguments=[str(argument) for argument in arguments],
            folder=os.path.abspath(folder),
            environment=dict(os.environ if environment is None else environment),
            quick=quick,
        )

    yield start
    if server:
        server.stop()


class Ended(NamedTuple):
    """Exit code of a process (below 0: the signal that ended it) and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def run_python(start_python):
    """Runs a program as `start_python` does, and returns how it ended.

    With `quick=True` its graphs run as they are, as those of the tests of this process do.
    """

    def run(program, *arguments, folder=".", environment=None, timeout=110, quick=False):
        environment = {**os.environ, **(environment or {})}
        child = start_python(
            program, *arguments, folder=folder, environment=environment, quick=quick
        )
        child.stdin.close()
        printed = child.communicate(timeout)
        return Ended(child.returncode, *printed)

    return run


@pytest.fixture(scope="session")
def run_command():
    """Runs Python with arguments, as from a shell: where its own start is what a test is about."""

    def run(*arguments, folder=ROOT, code=0, timeout=110):
        kept = {name: v for name, v in os.environ.items() if not name.startswith("TF_USE")}
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=folder,
            env={**kept, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == code, done.stderr[-3000:]
        return done

    return run


@pytest.fixture(scope="session")
def run_tensorflow1(run_python):
    """Runs a program of TensorFlow 1 in a folder, as `python -m replicate.compat` does.

    Returns what it printed. `test_runner.py` starts the runner from a shell, this starts a fork.
    """
    runner = "import runpy; runpy.run_module('replicate.compat', None, '__main__', True)"
    # The runner chooses it where TensorFlow is not loaded yet.
    keras = {"TF_USE_LEGACY_KERAS": "1"} if importlib.util.find_spec("tf_keras") else {}

    def run(folder, *arguments, timeout=110):
        done = run_python(runner, *arguments, folder=folder, environment=keras, timeout=timeout)
        assert done.code == 0, done.err[-3000:]
        return done

    return run
