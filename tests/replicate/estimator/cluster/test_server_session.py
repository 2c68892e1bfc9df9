"""Calls to servers with a time limit, and the end of a process while calls hang."""

import contextlib
import socket
import threading
import time

import pytest
import tensorflow as tf

from replicate.estimator.cluster import brief_session, server_session
from replicate.estimator.cluster.brief_session import run_briefly
from replicate.estimator.cluster.server_session import ServerSession, SilentServerError
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig
from replicate.launch.plan import free_ports

v1 = tf.compat.v1
LOST = tf.errors.UnavailableError(None, None, "Connection reset by peer")


class SlowClose:
    """A session whose close waits until a test lets it go on."""

    def __init__(self, monkeypatch):
        self.session = ServerSession()
        self.may_end, self.has_ended = threading.Event(), threading.Event()
        closes = v1.Session.close

        def close(session):
            if session is self.session:  # Sessions of other tests may be freed here, too.
                assert self.may_end.wait(20)
            closes(session)
            if session is self.session:
                self.has_ended.set()

        monkeypatch.setattr(v1.Session, "close", close)


@pytest.fixture
def slow(graph, monkeypatch):
    return SlowClose(monkeypatch)


def test_session_on_a_server_waits_for_its_first_answer(graph, monkeypatch):
    monkeypatch.setattr(server_session, "CONNECT_SECS", 0.1)
    never = v1.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    with ServerSession() as session:
        assert session.first_run(tf.constant(3)) == 3
        with pytest.raises(tf.errors.InvalidArgumentError, match="nothing_given"):
            session.first_run(v1.placeholder(tf.float32, name="nothing_given"))
        with pytest.raises(SilentServerError, match="did not answer a new session within 0"):
            session.first_run(never)


def test_slow_close_goes_on_in_the_background_and_a_process_that_ends_waits(slow, monkeypatch):
    at_the_end = []
    monkeypatch.setattr(server_session.atexit, "register", at_the_end.append)
    monkeypatch.setattr(server_session, "CLOSE_SECS", 0.05)
    slow.session.close()
    monkeypatch.setattr(server_session, "END_SECS", 0)
    at_the_end[0]()
    assert server_session.has_hanging_calls(), "a call that never returns is not waited for"
    monkeypatch.setattr(server_session, "END_SECS", 20)
    slow.may_end.set()
    at_the_end[0]()
    assert slow.has_ended.is_set()


def test_close_of_a_session_that_lost_a_server_is_not_waited_for(slow, monkeypatch):
    monkeypatch.setattr(server_session, "CLOSE_SECS", 60)
    started = time.monotonic()
    slow.session.fail(LOST)
    assert time.monotonic() - started < 30
    slow.may_end.set()
    assert slow.has_ended.wait(20), "it is closed in the background"


@pytest.mark.parametrize("is_lost", [True, False])
def test_last_operation_runs_before_the_close_of_a_lost_session(graph, monkeypatch, is_lost):
    events, is_closed = [], threading.Event()
    value, last = tf.constant(3), tf.no_op()
    session = ServerSession()
    session.before_close = last
    run = v1.Session.run

    def run_here(other, fetch):
        if fetch is not last and is_lost:
            raise LOST
        events.append(fetch)
        return run(other, fetch)

    def close_here(other):
        if other is session:
            events.append("close")
            is_closed.set()

    monkeypatch.setattr(v1.Session, "run", run_here)
    monkeypatch.setattr(v1.Session, "close", close_here)
    with contextlib.suppress(tf.errors.UnavailableError):
        session.run(value)
    events.clear()
    monkeypatch.setattr(server_session, "LAST_RUN_SECS", 20)
    session.close()
    assert is_closed.wait(20)
    assert events == ([last, "close"] if is_lost else ["close"])


def test_second_close_does_not_overtake_the_last_operation(slow, monkeypatch):
    is_running, may_end = threading.Event(), threading.Event()
    slow.session.before_close = tf.no_op()
    slow.may_end.set()

    def run_here(*_):
        is_running.set()
        may_end.wait(20)

    monkeypatch.setattr(v1.Session, "run", run_here)
    monkeypatch.setattr(server_session, "LAST_RUN_SECS", 20)
    slow.session.fail(LOST)
    assert is_running.wait(20)
    slow.session.close()
    assert not slow.has_ended.wait(0.2)
    may_end.set()
    assert slow.has_ended.wait(20)


def test_session_that_is_dropped_is_freed_after_its_close(graph, monkeypatch):
    may_close, is_freed, events = threading.Event(), threading.Event(), []
    session = ServerSession()
    number, closes = id(session), v1.Session.close

    def close(session):
        if id(session) == number:  # Sessions of other tests may be freed here, too.
            assert may_close.wait(20)
            events.append("closed")
        closes(session)

    def free(session):
        if id(session) == number:
            events.append("freed")
            is_freed.set()

    monkeypatch.setattr(server_session, "CLOSE_SECS", 0.01)
    monkeypatch.setattr(v1.Session, "close", close)
    monkeypatch.setattr(v1.Session, "__del__", free)
    del session
    assert events == [], "the close hangs"
    may_close.set()
    assert is_freed.wait(20)
    assert events == ["closed", "freed"]


def test_session_that_a_thread_has_failed_raises_its_error(graph):
    value = tf.constant(3)
    session = ServerSession()
    assert session.run(value) == 3
    session.fail(LOST)
    with pytest.raises(tf.errors.UnavailableError, match="reset by peer") as raised:
        session.run(value)
    assert raised.value is LOST
    closed = ServerSession()
    closed.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        closed.run(value)


@pytest.mark.parametrize("last_hangs", [False, True])
def test_step_that_hangs_gets_the_error_of_the_thread_that_failed(graph, monkeypatch, last_hangs):
    never = v1.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    session = ServerSession()
    session.before_close = never.op if last_hangs else None
    monkeypatch.setattr(server_session, "LAST_RUN_SECS", 0.05)
    lost = tf.errors.AbortedError(None, None, "ps 0 has left")
    failing = threading.Timer(0.05, session.fail, [lost])
    failing.start()
    with pytest.raises(tf.errors.AbortedError, match="ps 0 has left"):
        session.run(never)
    failing.join()


LIMIT_SECS = 0.3


def start_worker(ps_port):
    """Starts the server of a worker in this process; returns its address and settings."""
    [port] = free_ports(1)
    worker, ps = f"localhost:{port}", f"127.0.0.1:{ps_port}"
    jobs = {"chief": ("127.0.0.1:1",), "worker": (worker,), "ps": (ps,)}
    config = RunConfig(cluster=ClusterConfig(jobs, "worker", 0))
    server = v1.train.Server(config.cluster_spec, job_name="worker", task_index=0)
    return server.target, config


def test_silent_server_ends_the_call_in_time_and_leaves_no_thread(graph):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target, config = start_worker(silent.getsockname()[1])
        threads = threading.active_count()
        started = time.monotonic()
        with pytest.raises(tf.errors.DeadlineExceededError):
            run_briefly(tf.constant(3), target, config, "/job:ps/task:0", LIMIT_SECS)
        assert time.monotonic() - started >= LIMIT_SECS
        assert threading.active_count() == threads


def test_server_named_by_tf_config_is_called_by_that_name(graph, monkeypatch):
    targets = []
    jobs = {"chief": ("127.0.0.1:1",), "ps": ("127.0.0.1:2",)}
    cluster = ClusterConfig(jobs, "chief", 0, session_master="grpc://beside:1")
    run = v1.Session
    # The module's own name for it: TensorFlow has several modules tf.compat.v1.
    monkeypatch.setattr(
        brief_session.v1, "Session", lambda target, config: targets.append(target) or run()
    )
    value = tf.constant(3)
    for target in ("grpc://beside:1", "grpc://here:2", "grpc://127.0.0.1:2", "grpc://[::1]:2"):
        assert run_briefly(value, target, RunConfig(cluster=cluster), "/job:ps", 30) == 3
    assert targets == [
        "grpc://beside:1",
        "grpc://127.0.0.1:2",
        "grpc://localhost:2",
        "grpc://127.0.0.1:2",
    ]
