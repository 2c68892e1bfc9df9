import pytest
import tensorflow as tf

from replicate.estimator.cluster import connections
from replicate.estimator.cluster.connections import DeadConnection, dead_connection
from replicate.estimator.run_config import RunConfig


@pytest.fixture
def worker(roles):
    """Settings of a worker whose cluster runs in this process."""
    return RunConfig(cluster=roles["worker", 0])


@pytest.mark.parametrize(
    ("hangs", "is_own", "owner"),
    [("/job:ps/task:1", True, "worker 0"), ("/job:worker/task:0", False, "ps 1")],
)
def test_dead_connection_is_named_with_the_task_that_opened_it(
    hangs, is_own, owner, worker, monkeypatch
):
    address = worker.cluster.jobs["ps"][1]
    asked = []

    def arrives(config, source, server):
        asked.append((source, server))
        return server != "/job:ps/task:1" or source != hangs

    monkeypatch.setattr(connections, "_value_arrives", arrives)
    dead = dead_connection(worker)
    assert dead == DeadConnection("worker 0", 1, address, is_own)
    assert dead.owner == owner
    ends = ["worker 0", f"ps 1 at '{address}'"]
    first, second = ends if is_own else ends[::-1]
    assert str(dead) == f"the connection from {first} to {second}"
    assert asked[:2] == [("/job:ps/task:0",) * 2, ("/job:worker/task:0", "/job:ps/task:0")]


def test_connection_is_dead_if_no_answer_comes_and_an_error_is_an_answer(worker, monkeypatch):
    def fail(*_):
        raise error

    assert dead_connection(worker) is None
    monkeypatch.setattr(tf.compat.v1.Session, "run", fail)
    error = tf.errors.InvalidArgumentError(None, None, "no such device")
    assert dead_connection(worker) is None
    error = tf.errors.DeadlineExceededError(None, None, "late")
    dead = dead_connection(worker)
    assert (dead.server, dead.is_own) == (0, True)
