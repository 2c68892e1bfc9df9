"""Notes that workers leave for each other, if a server takes a while to answer."""

import threading

import pytest
import tensorflow as tf

import replicate
from replicate.errors import CutOffError
from replicate.estimator.cluster import meeting
from replicate.estimator.cluster.board import Board, has_ended
from replicate.estimator.cluster.servers import WaitCancelled
from replicate.estimator.cluster.worker_group import join_group
from replicate.estimator.cluster_config import ClusterConfig
from replicate.launch.plan import free_ports


@pytest.fixture
def board(monkeypatch):
    """A board in this process, which takes each note of the chief at the second try."""
    notes, tried = {}, set()

    class Board:
        def __init__(self, config):
            self._task = config.task_type

        def exchange(self, key="", note="", is_only=False):
            if key and self._task == "chief" and key not in tried:
                tried.add(key)
                raise tf.errors.DeadlineExceededError(None, None, "slow")
            if is_only:
                notes.clear()
            if key:
                notes[key] = note
            return dict(notes)

    monkeypatch.setattr(meeting, "Board", Board)
    monkeypatch.setattr(meeting, "POLL_SECS", 0.01)
    monkeypatch.setattr(meeting, "have_ended", lambda config, ranks: not ranks)
    return notes


def test_notes_that_get_lost_are_left_again(board):
    jobs = {"chief": ("a:1",), "worker": ("b:1",)}

    def attend(rank):
        role = ClusterConfig(jobs, ("chief", "worker")[rank], 0)
        config = replicate.RunConfig(cluster=role, train_distribute=replicate.AllReduce())
        own = meeting.Meeting(config, ["chief", "worker"], rank, 1)
        own.begin({"steps": 5}, lambda: False)
        own.end()
        ended.append(rank)

    ended = []
    threads = [threading.Thread(target=attend, args=[rank], daemon=True) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(ended) == [0, 1]
    assert list(board) == ["1/ended"], "nobody needs the others"


def test_the_end_of_a_call_is_not_taken_for_that_of_the_next():
    """A worker that is lost in the second call must not count as one that has ended with all."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    jobs = {"chief": tuple(addresses[:1]), "worker": tuple(addresses[1:])}
    role = ClusterConfig(jobs, "chief", 0)
    config = replicate.RunConfig(cluster=role, train_distribute=replicate.AllReduce())
    board = Board(config)
    group, number = join_group(config)
    board.exchange(f"{number}/arrived/1", "a long note")
    assert not has_ended(config)
    meeting.Meeting(config, group.names, 0, number).end()
    assert has_ended(config)
    assert list(board.exchange()) == [f"{number}/ended"]
    with pytest.raises(WaitCancelled):
        meeting.Meeting(config, group.names, 0, number + 1).begin({}, lambda: True)
    assert not has_ended(config)


def test_a_worker_that_is_cut_off_does_not_wait_for_the_others(monkeypatch):
    monkeypatch.setattr(
        meeting, "is_cut_off", lambda config: bool(asked.append(config) or asked[1:])
    )
    monkeypatch.setattr(meeting, "SAY_SECS", 0.0)
    asked = []
    role = ClusterConfig({"chief": ("a:1",), "worker": ("b:1", "c:1")}, "worker", 1)
    config = replicate.RunConfig(cluster=role, train_distribute=replicate.AllReduce(min_workers=2))
    wait = meeting.Wait(config, lambda: False)
    wait.go_on("the chief")
    with pytest.raises(CutOffError, match="worker 1 ends because none of the other workers") as end:
        wait.go_on("the chief")
    assert (end.value.code, asked) == (140, [config, config])
