import contextlib
import threading
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import CheckpointError
from replicate.estimator import session as session_module
from replicate.estimator.session import (
    RestoringSessionCreator,
    ServerSession,
    SilentServerError,
    complete_config,
)

v1 = tf.compat.v1


@pytest.fixture
def model(graph):
    """A global, a local variable and a saver."""
    variable = v1.get_variable("w", initializer=1.0)
    v1.get_variable("local", initializer=3.0, collections=[v1.GraphKeys.LOCAL_VARIABLES])
    return variable, v1.train.Saver()


def save(session, variable, saver, value, path):
    variable.load(value, session)
    return saver.save(session, path, write_meta_graph=False)


def test_without_checkpoint_runs_the_initialisers(model):
    variable, saver = model
    creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: None)
    session = creator.create_session()
    assert session.run(variable) == 1.0
    assert session.run(v1.local_variables()) == [3.0]


def test_init_fn_runs_only_without_checkpoint(model, tmp_path):
    variable, saver = model
    scaffold = v1.train.Scaffold(
        saver=saver, init_fn=lambda scaffold, session: variable.load(7.0, session)
    )
    paths = [None]
    creator = RestoringSessionCreator(scaffold, saver, lambda: paths[-1])
    session = creator.create_session()
    assert session.run(variable) == 7.0
    paths.append(save(session, variable, saver, 5.0, f"{tmp_path}/c"))
    assert creator.create_session().run(variable) == 5.0


def test_every_session_looks_for_the_newest_checkpoint_again(model, tmp_path):
    variable, saver = model
    paths = [None]
    creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: paths[-1])
    first = creator.create_session()
    for value in (2.0, 4.0):
        paths.append(save(first, variable, saver, value, f"{tmp_path}/c{value}"))
        assert creator.create_session().run(variable) == value


def test_works_outside_of_the_graph_context(tmp_path):
    with tf.Graph().as_default():
        variable = v1.get_variable("w", initializer=2.0)
        saver = v1.train.Saver()
        creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: None)
    assert creator.create_session().run(variable) == 2.0


def test_restore_error_is_not_the_end_of_the_input(model, tmp_path):
    variable, saver = model
    paths = [None]
    creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: paths[-1])
    paths.append(save(creator.create_session(), variable, saver, 2.0, f"{tmp_path}/c"))
    (tmp_path / "c.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(CheckpointError, match="damaged file"):
        v1.train.MonitoredSession(creator)


def test_variable_that_nothing_initialises_is_named(model):
    _, saver = model
    scaffold = v1.train.Scaffold(saver=saver, init_op=tf.no_op())
    with pytest.raises(RuntimeError, match="no value for w"):
        RestoringSessionCreator(scaffold, saver, lambda: None).create_session()


def test_tables_and_iterators_are_ready(graph):
    iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(3))
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    following = iterator.get_next()
    saver = v1.train.Saver(allow_empty=True)
    scaffold = v1.train.Scaffold(saver=saver)
    session = RestoringSessionCreator(scaffold, saver, lambda: None).create_session()
    assert [session.run(following) for _ in range(3)] == [0, 1, 2]


def test_sessions_have_the_logical_cpus(graph):
    count = len(tf.config.list_logical_devices("CPU"))
    assert count > 1
    with v1.device(f"/cpu:{count - 1}"):
        there = v1.get_variable("w", initializer=2.0)
    saver = v1.train.Saver()
    config = v1.ConfigProto(allow_soft_placement=False)
    creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: None, config)
    np.testing.assert_equal(creator.create_session().run(there), 2.0)


def test_complete_config_keeps_the_options_of_the_user():
    given = v1.ConfigProto(device_count={"CPU": 3}, inter_op_parallelism_threads=2)
    completed = complete_config(given)
    assert completed == given
    assert completed is not given
    assert complete_config(None).allow_soft_placement
    assert not complete_config(v1.ConfigProto()).allow_soft_placement


def test_session_on_a_server_waits_for_its_first_answer(graph, monkeypatch):
    monkeypatch.setattr(session_module, "CONNECT_SECS", 0.1)
    never = v1.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    with ServerSession() as session:
        assert session.first_run(tf.constant(3)) == 3
        with pytest.raises(tf.errors.InvalidArgumentError, match="nothing_given"):
            session.first_run(v1.placeholder(tf.float32, name="nothing_given"))
        with pytest.raises(SilentServerError, match="did not answer a new session within 0"):
            session.first_run(never)


def test_session_on_a_server_closes_in_the_background_if_need_be(graph, monkeypatch):
    may_close = threading.Event()
    session = ServerSession()
    with monkeypatch.context() as patch:
        patch.setattr(session_module, "CLOSE_SECS", 0.05)
        patch.setattr(v1.Session, "close", lambda _: may_close.wait(20))
        session.close()
    assert not may_close.is_set()
    may_close.set()
    session.close()


def test_close_of_a_session_that_lost_a_server_is_not_waited_for(graph, monkeypatch):
    may_close, is_closed = threading.Event(), threading.Event()
    value = tf.constant(3)
    session = ServerSession()
    with monkeypatch.context() as patch:
        lost = tf.errors.UnavailableError(None, None, "Connection reset by peer")
        patch.setattr(v1.Session, "run", mock.Mock(side_effect=lost))
        patch.setattr(v1.Session, "close", lambda _: may_close.wait(20) and is_closed.set())
        patch.setattr(session_module, "CLOSE_SECS", 20)
        with pytest.raises(tf.errors.UnavailableError, match="reset by peer"):
            session.run(value)
        session.close()
        assert not is_closed.is_set()
        may_close.set()
        assert is_closed.wait(20), "it is closed in the background"
    session.close()


@pytest.mark.parametrize("is_lost", [True, False])
def test_last_operation_runs_before_the_close_of_a_lost_session(graph, monkeypatch, is_lost):
    events, is_closed = [], threading.Event()
    value, last = tf.constant(3), tf.no_op()
    session = ServerSession()
    session.before_close = last
    run = v1.Session.run
    lost = tf.errors.UnavailableError(None, None, "Connection reset by peer")

    def run_here(other, fetch):
        if fetch is not last and is_lost:
            raise lost
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
    monkeypatch.setattr(session_module, "LAST_RUN_SECS", 20)
    session.close()
    assert is_closed.wait(20)
    assert events == ([last, "close"] if is_lost else ["close"])


def test_second_close_does_not_overtake_the_last_operation(graph, monkeypatch):
    is_running, may_end, closed = threading.Event(), threading.Event(), threading.Semaphore(0)
    session = ServerSession()
    session.before_close = tf.no_op()

    def run_here(*_):
        is_running.set()
        may_end.wait(20)

    def close_here(other):
        if other is session:
            closed.release()

    with monkeypatch.context() as patch:
        patch.setattr(v1.Session, "run", run_here)
        patch.setattr(v1.Session, "close", close_here)
        patch.setattr(session_module, "LAST_RUN_SECS", 20)
        session.fail(tf.errors.UnavailableError(None, None, "Connection reset by peer"))
        assert is_running.wait(20)
        session.close()
        assert not closed.acquire(timeout=0.2)
        may_end.set()
        assert all(closed.acquire(timeout=20) for _ in range(2))
    session.close()


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

    monkeypatch.setattr(session_module, "CLOSE_SECS", 0.01)
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
    lost = tf.errors.UnavailableError(None, None, "Connection reset by peer")
    session.fail(lost)
    with pytest.raises(tf.errors.UnavailableError, match="reset by peer") as raised:
        session.run(value)
    assert raised.value is lost
    closed = ServerSession()
    closed.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        closed.run(value)


@pytest.mark.parametrize("last_hangs", [False, True])
def test_step_that_hangs_gets_the_error_of_the_thread_that_failed(graph, monkeypatch, last_hangs):
    never = v1.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    session = ServerSession()
    session.before_close = never.op if last_hangs else None
    monkeypatch.setattr(session_module, "LAST_RUN_SECS", 0.05)
    lost = tf.errors.AbortedError(None, None, "ps 0 has left")
    failing = threading.Timer(0.05, session.fail, [lost])
    failing.start()
    with pytest.raises(tf.errors.AbortedError, match="ps 0 has left"):
        session.run(never)
    failing.join()


def test_a_process_that_ends_waits_for_a_session_that_is_closing(graph, monkeypatch):
    may_close, closed, at_the_end = threading.Event(), threading.Event(), []
    session = ServerSession()
    with monkeypatch.context() as patch:
        patch.setattr(session_module.atexit, "register", at_the_end.append)
        patch.setattr(session_module, "CLOSE_SECS", 0.05)
        patch.setattr(v1.Session, "close", lambda _: may_close.wait(20) and closed.set())
        session.close()
        patch.setattr(session_module, "END_SECS", 0)
        at_the_end[0]()
        assert session_module.has_hanging_calls(), "a call that never returns is not waited for"
        patch.setattr(session_module, "END_SECS", 20)
        may_close.set()
        at_the_end[0]()
        assert closed.is_set()
    session.close()


class Position:
    """An input that notes how it was started."""

    def __init__(self, has_begun=False):
        self.has_begun = has_begun
        self.calls = []

    def begin(self, session, checkpoint):
        self.calls.append(checkpoint)

    def begin_again(self, session):
        self.calls.append("again")


def damaged():
    raise CheckpointError("all damaged")


@pytest.mark.parametrize(
    ("has_begun", "find_checkpoint", "expected"),
    [(False, lambda: "newest", "newest"), (False, damaged, None), (True, damaged, "again")],
)
def test_input_of_variables_that_live_on_a_server(model, has_begun, find_checkpoint, expected):
    variable, saver = model
    server = v1.train.Server.create_local_server()
    with v1.Session(server.target) as session:
        session.run(variable.initializer)
        position = Position(has_begun)
        RestoringSessionCreator(
            v1.train.Scaffold(saver=saver),
            saver,
            find_checkpoint,
            position=position,
            target=server.target,
        ).create_session()
    assert position.calls == [expected]
