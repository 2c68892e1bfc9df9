import os
import threading
import time

import pytest
import tensorflow as tf

from replicate.errors import ClusterError
from replicate.estimator.cluster import watchdog
from replicate.estimator.cluster.connections import DeadConnection
from replicate.estimator.cluster.watchdog import Watchdog
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1

JOBS = {"chief": ("a:1",), "worker": ("a:2",), "ps": ("a:3",)}


class Session:
    """A session in which a step hangs until it is closed."""

    def __init__(self):
        self.is_closed = threading.Event()

    def close(self):
        self.is_closed.set()

    def run(self):
        assert self.is_closed.wait(20)
        raise tf.errors.CancelledError(None, None, "closed")


class Asked(list):
    """The jobs that are asked; the test says who is absent, and which connection is dead."""

    absent = ()
    dead = None

    def __init__(self):
        self.reported = []

    def absent_tasks(self, config, jobs):
        self.append(list(jobs))
        return self.absent


@pytest.fixture
def asked(monkeypatch):
    asked = Asked()
    monkeypatch.setattr(watchdog, "POLL_SECS", 0.01)
    monkeypatch.setattr(watchdog, "LOOK_SECS", 0.05)
    monkeypatch.setattr(watchdog, "absent_tasks", asked.absent_tasks)
    monkeypatch.setattr(watchdog, "dead_connection", lambda config: asked.dead)
    monkeypatch.setattr(
        watchdog, "report_dead_connection", lambda *arguments: asked.reported.append(arguments[-1])
    )
    return asked


def watching(limit, **settings):
    cluster = ClusterConfig(JOBS, "worker", 0)
    return Watchdog(RunConfig(cluster=cluster, step_timeout_secs=limit, **settings))


def hang(dog):
    """Makes a step that hangs, watched."""
    session = Session()
    with dog:
        dog.after_create_session(session, None)
        session.run()


def test_step_that_hangs_ends_by_an_error_that_names_the_absent(graph, asked, caplog):
    asked.absent = ["ps 0 at 'a:3'"]
    with pytest.raises(ClusterError, match=r"worker 0 has made no step .* from ps 0 at 'a:3'"):
        hang(watching(limit=0.2))
    assert asked[0] == ["ps"]
    assert "waiting for ps 0 at 'a:3'" in caplog.text


@pytest.mark.parametrize(
    ("is_own", "text", "reported"),
    [
        (True, "connection from worker 0 to ps 0 at 'a:3' is dead: .* Start worker 0 again", []),
        (False, "connection from ps 0 at 'a:3' to worker 0 is dead: .* Start ps 0 again", [0]),
    ],
)
def test_dead_connection_ends_training_though_all_answer(is_own, text, reported, graph, asked):
    asked.dead = DeadConnection("worker 0", 0, "a:3", is_own)
    with pytest.raises(ClusterError, match=f"worker 0 has made no step .* {text}"):
        hang(watching(limit=0.2))
    assert asked.reported == reported


def test_step_that_comes_during_the_search_keeps_training(graph, asked, monkeypatch):
    searches = []

    def search(config):
        dog.beat()
        searches.append(config)
        return DeadConnection("worker 0", 0, "a:3", is_own=False)

    monkeypatch.setattr(watchdog, "dead_connection", search)
    with watching(limit=0.05) as dog:
        deadline = time.monotonic() + 20
        while len(searches) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(searches) >= 2
    assert dog.error is None
    assert asked.reported == []


def test_synchronous_steps_need_chief_and_workers(graph, asked):
    step = v1.train.get_or_create_global_step()
    weight = v1.get_variable("w", initializer=2.0)
    descent = v1.train.GradientDescentOptimizer(1.0)
    v1.train.SyncReplicasOptimizer(descent, 1).minimize(tf.square(weight), step)
    asked.absent = ["worker 1"]
    with pytest.raises(ClusterError):
        hang(watching(None, session_creation_timeout_secs=0.1))
    assert asked[0] == ["ps", "chief", "master", "worker"]


def test_quiet_while_all_answer_or_steps_are_made(graph, asked, own_log):
    with watching(limit=0.05) as dog:
        while len(asked) < 3:
            time.sleep(0.01)
    assert dog.error is None
    asked.clear()
    asked.absent = ["ps 0"]
    with watching(limit=20) as dog:
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            dog.beat()
            time.sleep(0.005)
    assert not own_log.text
    assert asked == []


def test_process_ends_if_the_step_cannot_be_woken(graph, asked, monkeypatch, capfd):
    ended, codes = threading.Event(), []
    monkeypatch.setattr(watchdog, "WAKE_SECS", 0.05)
    monkeypatch.setattr(os, "_exit", lambda code: codes.append(code) or ended.set())
    asked.absent = ["ps 0"]
    with watching(limit=0.05):
        assert ended.wait(20)
    assert codes[0] == 138
    assert "ClusterError: worker 0 has made no step" in capfd.readouterr().err


def test_does_not_watch_without_a_cluster(graph):
    before = threading.active_count()
    with Watchdog(RunConfig()):
        assert threading.active_count() == before


def test_signal_releases_the_step_that_waits(graph, asked):
    released = threading.Event()
    signals = iter([False, True, True])
    dog = Watchdog(
        RunConfig(cluster=ClusterConfig(JOBS, "worker", 0)),
        lambda: next(signals, True),
        lambda: released.is_set() or released.set(),
    )
    with dog:
        assert released.wait(20)
    assert dog.error is None
