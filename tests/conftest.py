"""The choice of tests; the process that only hands them out imports no TensorFlow.

What tests need is in `tests.fixtures`, which the processes that run tests load.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# New sessions look for oneDNN's kernels, operation by operation: a twentieth of the tests' time.
# `make test-tf215` runs the tests with these kernels.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
# A server begins 64 threads for calls to others, and cannot be stopped: a tenth serves a test.
os.environ.setdefault("TF_GRPC_WORKER_CACHE_THREADS", "2")
os.environ.setdefault("TF_GRPC_WORKER_CACHE_QUEUES", "2")

import signal
from pathlib import Path

pytest_plugins = ["tests.children"]

# A script ignores SIGINT in what it starts with "&", and nohup SIGHUP.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

ROOT = Path(__file__).parents[1]

# Folders whose tests `make test` leaves out, and `make test-all` runs.
BROAD = tuple(
    ROOT / "tests" / folder
    for folder in ("benchmarks", "examples/legacy", "examples/slim", "reliability/fuzz")
)


def pytest_addoption(parser):
    """Adds the choice of tests, and what the tests of reliability are repeated with."""
    parser.addoption(
        "--scope",
        choices=("core", "broad"),
        help="core: without folders and tests that are broad; broad: these only; default: all",
    )
    parser.addoption("--seed", type=int, default=0, help="seed of random faults and inputs")
    parser.addoption("--case", type=int, help="number of the one fuzzed input to play again")
    parser.addoption("--minutes", type=float, help="duration of the chaos run and of the soak")
    parser.addoption("--kills", type=int, default=5, help="kills of each kind, for percentiles")


def pytest_configure(config):
    """Loads the fixtures, except in the process that hands out tests to workers."""
    if hasattr(config, "workerinput") or not config.getoption("tx", None):
        config.pluginmanager.import_plugin("tests.fixtures")


def pytest_xdist_auto_num_workers():
    """One more than processors: tests wait for other processes for a tenth of their time."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_ignore_collect(collection_path, config):
    """Does not even import what is in the folders that are left out."""
    if config.getoption("--scope") == "core" and collection_path in BROAD:
        return True
    return None


def pytest_collection_modifyitems(config, items):
    """Selects the tests of one scope."""
    scope = config.getoption("--scope")
    if scope is None:
        return
    kept, left_out = [], []
    for item in items:
        (kept if is_broad(item) == (scope == "broad") else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def is_broad(item):
    """Returns True if a test, or its folder, is one that `make test` leaves out."""
    folders = any(folder in item.path.parents for folder in BROAD)
    return folders or item.get_closest_marker("broad") is not None
