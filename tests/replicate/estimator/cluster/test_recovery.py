from types import SimpleNamespace

import pytest
import tensorflow as tf

from replicate.errors import ClusterError
from replicate.estimator.cluster import recovery
from replicate.estimator.cluster.connections import DeadConnection
from replicate.estimator.cluster.recovery import RecoveringSessionCreator, Restarts
from replicate.estimator.cluster.server_session import SilentServerError
from replicate.estimator.cluster.servers import WaitCancelled
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1


class Clock:
    """A clock that only sleeping moves on."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(recovery, "time", clock := Clock())
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
