"""Lost sessions that are replaced, and steps that hang."""

import os
import threading
import time
from types import SimpleNamespace

import pytest
import tensorflow as tf

from replicate.all_reduce.settings import AllReduce
from replicate.errors import ClusterError
from replicate.estimator.cluster import recovery, watchdog
from replicate.estimator.cluster.connections import DeadConnection
from replicate.estimator.cluster.recovery import RecoveringSessionCreator, Restarts, last_loss_named
from replicate.estimator.cluster.server_session import SilentServerError
from replicate.estimator.cluster.servers import WaitCancelled
from replicate.estimator.cluster.watchdog import Watchdog
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1


@pytest.fixture
def clock(linear, monkeypatch):
    monkeypatch.setattr(recovery, "time", clock := linear.Clock())
    return clock


def lost(text="Graph execution error:\n\n=====\nps 0 has left\nmore"):
    return tf.errors.UnavailableError(None, None, text)


def pauses(restarts, clock, count):
    found = []
    for _ in range(count):
        before = clock.now
        restarts.pause(bool)
        found.append(clock.now - before)
    return found


def test_pauses_grow_up_to_a_minute_and_less_the_time_that_a_session_was_used(clock):
    restarts = Restarts(RunConfig(max_restarts=8), SimpleNamespace(step=0))
    assert pauses(restarts, clock, 8) == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60])
    replaced_at_once = Restarts(RunConfig(max_restarts=8), SimpleNamespace(step=0))
    replaced_at_once.begin_attempt()
    clock.now += 1.25
    assert pauses(replaced_at_once, clock, 3) == pytest.approx([0, 2, 4])
    clock.now += 3.5
    assert pauses(replaced_at_once, clock, 1) == pytest.approx([4.5])


def test_a_worker_by_all_reduce_makes_no_second_session():
    """The graph is final by then, and the others have begun."""
    role = ClusterConfig({"chief": ("a:1",), "worker": ("a:2",)}, "worker", 0)
    config = RunConfig(cluster=role, train_distribute=AllReduce())
    restarts = Restarts(config, SimpleNamespace(step=0))
    with pytest.raises(tf.errors.AbortedError), restarts.record_cause():
        raise tf.errors.AbortedError(None, None, "received twice")
    told = r"^worker 0 ends because its session was lost \(AbortedError: received twice\): workers"
    with pytest.raises(ClusterError, match=told):
        restarts.pause(bool)


def test_loss_in_the_last_save_is_an_error_of_the_cluster():
    jobs = {"chief": ("a:1",), "ps": ("a:3",)}
    told = r"^chief 0 has lost its session at the end .*\(UnavailableError: ps 0 has left\)"
    with (
        pytest.raises(ClusterError, match=told),
        last_loss_named(RunConfig(cluster=ClusterConfig(jobs, "chief", 0))),
    ):
        raise lost()
    with pytest.raises(tf.errors.UnavailableError), last_loss_named(RunConfig()):
        raise lost()


@pytest.mark.parametrize(
    ("job", "named"), [("ps", "ps 1 at 'a:4': Connection reset"), ("gpu", "gpu 1: Connection")]
)
def test_error_after_too_many_losses_names_the_task_of_the_last_cause(job, named, clock):
    jobs = {"chief": ("a:1",), "worker": ("a:2",), "ps": ("a:3", "a:4")}
    config = RunConfig(cluster=ClusterConfig(jobs, "worker", 0), max_restarts=2)
    restarts = Restarts(config, SimpleNamespace(step=7))
    text = f"UNAVAILABLE: From /job:{job}/replica:0/task:1:\nConnection reset by peer\nmore"
    with pytest.raises(tf.errors.UnavailableError), restarts.record_cause():
        raise lost(text)
    pauses(restarts, clock, 2)
    text = rf"at step 7: .* lost 3 times .*UnavailableError: {named}"
    with pytest.raises(ClusterError, match=text) as told:
        restarts.pause(bool)
    assert told.value.code == 138


def test_new_highest_step_resets_the_count(clock):
    readings = SimpleNamespace(step=10)
    restarts = Restarts(RunConfig(max_restarts=2), readings)
    pauses(restarts, clock, 2)
    readings.step = 11
    assert pauses(restarts, clock, 2) == pytest.approx([1, 2])
    readings.step = 9  # back at an older checkpoint
    with pytest.raises(ClusterError, match="at step 11"):
        restarts.pause(bool)


def test_a_pause_ends_when_there_is_nothing_to_wait_for(clock):
    restarts = Restarts(RunConfig(), SimpleNamespace(step=0))
    with pytest.raises(WaitCancelled):
        restarts.pause(lambda: True)
    assert clock.now == 0
    clock.now = 9
    with pytest.raises(WaitCancelled):
        restarts.pause(lambda: True)
    assert clock.now == 9, "also if there is no pause"


class Creator:
    """Fails with each error in turn, then makes a session of a kind."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def create_session(self):
        if self.errors:
            raise self.errors.pop(0)
        return "session"


def recovering(creator, **settings):
    config = RunConfig(**settings)
    return RecoveringSessionCreator(
        creator, Restarts(config, SimpleNamespace(step=0)), config, should_cancel=bool
    )


def test_session_that_is_lost_while_it_is_made_is_made_again(clock):
    aborted = tf.errors.AbortedError(None, None, "aborted")
    creator = recovering(Creator(lost(), aborted))
    assert creator.create_session() == "session"
    assert clock.now == pytest.approx(3)
    creator.create_session()
    assert clock.now == pytest.approx(7), "a session was asked for since the last one was lost"


def test_dead_connection_ends_the_attempts(clock, monkeypatch):
    dead = DeadConnection("worker 0", 1, "a:4", is_own=True)
    found = [None, dead]
    monkeypatch.setattr(recovery, "dead_connection", lambda config: found.pop(0))
    creator = recovering(Creator(SilentServerError(30), SilentServerError(30)))
    with pytest.raises(ClusterError, match="no answer to a new session, and the connection from"):
        creator.create_session()
    assert clock.now == pytest.approx(1), "a live connection is tried again"


def test_other_errors_are_passed_on(clock):
    with pytest.raises(KeyError):
        recovering(Creator(KeyError("x"))).create_session()
    with pytest.raises(ClusterError, match="lost 1 times"):
        recovering(Creator(lost()), max_restarts=0).create_session()


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
    threads = threading.active_count()
    with Watchdog(RunConfig()):
        assert threading.active_count() == threads, "there is nothing to watch"
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
