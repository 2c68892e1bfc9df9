"""Notes that workers leave for each other, if a server takes a while to answer."""

import threading

import pytest
import tensorflow as tf

import replicate
from replicate.errors import CutOffError
from replicate.estimator.cluster import meeting
from replicate.estimator.cluster_config import ClusterConfig


@pytest.fixture
def board(monkeypatch):
    """A board in this process, which takes each note of the chief at the second try."""
    notes, tried = {}, set()

    class Board:
        def __init__(self, config):
            self._task = config.task_type

        def exchange(self, key="", note=""):
            if key and self._task == "chief" and key not in tried:
                tried.add(key)
                raise tf.errors.DeadlineExceededError(None, None, "slow")
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
    assert {"1/answer", "1/ended", "1/left/1"} <= board.keys()


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
