import dataclasses
import os
import signal
import socket
import threading
import time

import pytest
import tensorflow as tf

from replicate.all_reduce.settings import AllReduce
from replicate.errors import ClusterError
from replicate.estimator.cluster import servers
from replicate.estimator.cluster.servers import (
    WaitCancelled,
    absent_tasks,
    delay_worker,
    report_dead_connection,
    serve_until_done,
    start_server,
    tell_parameter_servers,
    wait_for_parameter_servers,
)
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.end_marker import announce_end
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1


@pytest.fixture
def listening():
    """A socket that listens on a free port."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def config(port, task="chief", **settings):
    jobs = {"chief": ("127.0.0.1:1",), "ps": (f"127.0.0.1:{port}",)}
    if task == "ps":
        jobs = {"chief": ("127.0.0.1:1",), "worker": ("127.0.0.1:2",), **jobs}
    return RunConfig(cluster=ClusterConfig(jobs, task, 0), **settings)


def test_a_worker_that_none_of_several_others_answers_is_cut_off(target, listening):
    port, answering = listening, target.rpartition(":")[2]

    def is_cut_off(*ports, min_workers=2):
        others = tuple(f"127.0.0.1:{each}" for each in ports)
        jobs = {"chief": others[:1], "worker": ("127.0.0.1:1", *others[1:])}
        strategy = AllReduce(min_workers=min_workers)
        cluster = ClusterConfig(jobs, "worker", 0)
        return servers.is_cut_off(RunConfig(cluster=cluster, train_distribute=strategy), 0.2)

    assert is_cut_off(port, port)
    assert not is_cut_off(port, port, min_workers=None)
    assert not is_cut_off(port), "either of two may be"
    assert not is_cut_off(port, 1), "the machine says that nothing listens"
    assert not is_cut_off(port, answering)


def test_port_in_use_is_named(listening):
    with pytest.raises(ClusterError, match=f"server of ps 0: port {listening}.* is in use"):
        start_server(config(listening, "ps"))


def test_waits_for_a_parameter_server_that_answers(target, listening, monkeypatch):
    wait_for_parameter_servers(config(target.rpartition(":")[2]))
    missing = config(1, session_creation_timeout_secs=0.01)
    with pytest.raises(ClusterError, match=r"chief 0 has waited 0.01 seconds for ps 0 at '127.0"):
        wait_for_parameter_servers(missing)
    monkeypatch.setattr(servers, "_ANSWER_SECS", 0.05)
    silent = config(listening, session_creation_timeout_secs=0.01)
    with pytest.raises(ClusterError, match=rf"ps 0 at '127.*:{listening}', which does not answer"):
        wait_for_parameter_servers(silent)


def test_task_without_an_address_is_not_asked():
    jobs = {"chief": ("",), "worker": ("",), "ps": ("",)}
    beside = RunConfig(cluster=ClusterConfig(jobs, "worker", 0, target="grpc://a:1"))
    servers.wait_for_parameter_servers(beside)
    assert servers.absent_tasks(beside, ["chief", "ps"]) == []


def test_pauses_between_checks_grow_with_the_wait():
    for waited, longest, expected in ((0, 0.5, 0.1), (2, 0.5, 0.2), (9, 0.5, 0.5), (0, 0.02, 0.02)):
        assert servers.poll_secs(waited, longest) == expected


def test_waits_for_a_parameter_server_only_as_long_as_needed(monkeypatch, caplog):
    monkeypatch.setattr(servers, "SAY_SECS", 0)
    monkeypatch.setattr(servers, "POLL_SECS", 0.01)
    answers = iter([False, False, True])
    with pytest.raises(WaitCancelled, match="ps 0"):
        wait_for_parameter_servers(config(1), lambda: next(answers))
    assert caplog.text.count("Waiting for ps 0 at '127.0.0.1:1'") == 1


def test_tasks_that_do_not_answer_are_named(listening, roles, monkeypatch):
    monkeypatch.setattr(servers, "_ANSWER_SECS", 0.5)
    role = roles["chief", 0]
    assert absent_tasks(RunConfig(cluster=role), ["ps", "chief", "worker"]) == []
    jobs = {**role.jobs, "worker": ("127.0.0.1:1", "", f"127.0.0.1:{listening}")}
    absent = RunConfig(cluster=dataclasses.replace(role, jobs=jobs))
    assert absent_tasks(absent, ["ps", "worker"]) == [
        "worker 0 at '127.0.0.1:1'",
        f"worker 2 at '127.0.0.1:{listening}'",
    ]


def test_all_tasks_are_asked_at_once(monkeypatch):
    """Else a process whose link is cut needs the time limit once for each of the others."""
    together = threading.Barrier(3, timeout=5)
    monkeypatch.setattr(servers, "_answers", lambda *_: together.wait() is None)
    cluster = ClusterConfig({"chief": ("a:1",), "worker": ("a:2", "a:3", "a:4")}, "chief", 0)
    absent = absent_tasks(RunConfig(cluster=cluster), ["chief", "worker"])
    assert [name[:8] for name in absent] == ["worker 0", "worker 1", "worker 2"]


@pytest.mark.parametrize(
    ("limit", "index", "role", "secs"),
    [
        (None, 0, "worker", 0),
        (60, 2, "worker", 15),
        (7, 2, "worker", 7),
        (60, 0, "chief", 0),
    ],
)
def test_worker_delay_grows_with_its_index(linear, monkeypatch, limit, index, role, secs):
    monkeypatch.setattr(servers, "time", clock := linear.Clock())
    jobs = {"chief": ("a:1",), "worker": ("a:2", "a:3", "a:4")}
    cluster = ClusterConfig(jobs, role, index)
    delayed = RunConfig(cluster=cluster, experimental_max_worker_delay_secs=limit)
    delay_worker(delayed, lambda: True)
    assert clock.now == 0
    delay_worker(delayed)
    assert clock.now == pytest.approx(secs)


def test_server_has_no_device_filters_and_its_connections_are_closed_at_the_end(monkeypatch):
    found, ports = [], []
    monkeypatch.setattr(v1.train, "Server", lambda *args, **settings: found.append(settings))
    monkeypatch.setattr(servers, "_is_free", lambda port: True)
    monkeypatch.setattr(servers, "disconnect_at_the_end", ports.append)
    start_server(config(7, "ps"))
    assert list(found[0]["config"].device_filters) == []
    assert ports == [{1, 2, 7}]


@pytest.fixture
def target(roles, monkeypatch):
    """The server of a parameter server that looks for messages often."""
    monkeypatch.setattr(servers, "POLL_SECS", 0.01)
    return f"grpc://{roles['ps', 0].jobs['ps'][0]}"


def as_role(role, index=0, chief="127.0.0.1:1", **settings):
    jobs = {"chief": (chief,), "worker": ("127.0.0.1:2",), "ps": ("",)}
    return RunConfig(cluster=ClusterConfig(jobs, role, index), **settings)


def start_serving(target):
    thread = threading.Thread(target=serve_until_done, args=(target, as_role("ps")))
    thread.start()
    return thread


def test_parameter_server_ends_when_all_are_done(target, monkeypatch):
    thread = start_serving(target)
    tell_parameter_servers(target, as_role("worker"))
    tell_parameter_servers(target, as_role("worker"))
    thread.join(timeout=0.3)
    assert thread.is_alive(), "the chief is not done"
    tell_parameter_servers(target, as_role("chief"))
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_ended_parameter_server_is_skipped(target):
    config = as_role("worker")
    gone = dataclasses.replace(config.cluster, jobs={**config.cluster.jobs, "ps": ("127.0.0.1:1",)})
    started = time.monotonic()
    tell_parameter_servers(target, RunConfig(cluster=gone))
    assert time.monotonic() - started < servers.LEAVE_SECS / 2


def test_parameter_server_that_does_not_take_a_message_is_named(target, monkeypatch, caplog):
    asked = []

    def fail(*arguments):
        asked.append(arguments)
        raise tf.errors.DeadlineExceededError(None, None, "late")

    monkeypatch.setattr(v1.Session, "run", fail)
    tell_parameter_servers(target, as_role("worker"))
    assert "ps 0 was not told that worker 0 is done" in caplog.text
    assert "DeadlineExceededError" in caplog.text
    report_dead_connection(target, as_role("worker"), 0)
    assert len(asked) == 2


def test_parameter_server_does_not_wait_for_ever_for_a_lost_worker(target, monkeypatch):
    monkeypatch.setattr(servers, "LEAVE_SECS", 0.2)
    thread = start_serving(target)
    tell_parameter_servers(target, as_role("chief"))
    started = time.monotonic()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert time.monotonic() - started > 0.1


def test_parameter_server_ends_if_its_connection_to_a_worker_is_dead(target, monkeypatch):
    report_dead_connection(target, as_role("worker"), 0)
    text = "ps 0 ends because worker 0 has found the connection .* at '127.0.0.1:2' dead"
    with pytest.raises(ClusterError, match=text):
        serve_until_done(target, as_role("ps"))


def test_parameter_server_raises_if_no_chief_or_worker_answers(target, monkeypatch):
    config = as_role("ps", session_creation_timeout_secs=0.1)
    text = (
        r"ps 0 has waited 0.1 seconds .* chief 0 at '127.0.0.1:1', worker 0 at '127.0.0.1:2' do not"
    )
    with pytest.raises(ClusterError, match=text):
        serve_until_done(target, config)


def test_parameter_server_ends_after_the_chief_if_no_worker_answers(target, monkeypatch):
    monkeypatch.setattr(servers, "LOOK_SECS", 0.05)
    tell_parameter_servers(target, as_role("chief"))
    started = time.monotonic()
    serve_until_done(target, as_role("ps"))
    assert time.monotonic() - started < servers.LEAVE_SECS / 2


def test_parameter_server_without_a_message_ends_after_training(target, monkeypatch, tmp_path):
    monkeypatch.setattr(servers, "LOOK_SECS", 0.05)
    asked = []

    def look(address):
        asked.append(address)
        if len(asked) == 3:
            announce_end(str(tmp_path))
        return False

    monkeypatch.setattr(servers, "_answers", look)
    announce_end(str(tmp_path))  # of an earlier run
    serve_until_done(target, as_role("ps", model_dir=str(tmp_path)))
    assert len(asked) >= 3


def interrupt(target, during=lambda chief: None):
    """Sends SIGTERM to a parameter server whose chief answers; returns the seconds it goes on."""
    asked_at = []

    def ask():
        os.kill(os.getpid(), signal.SIGTERM)
        asked_at.append(time.monotonic())
        during(chief)

    with socket.create_server(("127.0.0.1", 0)) as chief:
        config = as_role("ps", chief=f"127.0.0.1:{chief.getsockname()[1]}")
        threading.Timer(0.1, ask).start()
        with pytest.raises(SystemExit) as end:
            serve_until_done(target, config)
    assert end.value.code == 143
    return time.monotonic() - asked_at[0]


def test_interrupted_parameter_server_waits_for_chief_and_workers(target):
    def save(chief):
        time.sleep(0.3)
        chief.close()

    assert interrupt(target, during=save) >= 0.3


def test_parameter_server_that_is_asked_to_end_does_not_wait_for_ever(target, monkeypatch):
    monkeypatch.setattr(servers, "STOP_SECS", 0.2)
    assert interrupt(target) >= 0.1
