"""The loss of workers is noticed, and the text about it says what starts those that are left."""

import fcntl
import resource
import socket

import pytest

import replicate
from replicate.estimator.cluster.peers import Peers, loss_of
from replicate.estimator.cluster_config import ClusterConfig


@pytest.mark.parametrize(
    ("fewest", "advice"),
    [
        (None, "Start all workers again, or look for its error"),
        (2, "Those that are left hand over the newest step and end: replicate.launch with --min_"),
    ],
)
def test_text_about_a_lost_worker_tells_the_way_on(fewest, advice):
    cluster = ClusterConfig({"chief": ("a:1",), "worker": ("a:2", "a:3")}, "worker", 0)
    settings = replicate.AllReduce(min_workers=fewest)
    config = replicate.RunConfig(cluster=cluster, train_distribute=settings)
    text = loss_of(config, ["chief 0 at 'a:1'"])
    assert text.startswith("worker 0 ends because a step cannot be completed: there is no answer ")
    assert f"from chief 0 at 'a:1'. {advice}" in text


def test_a_loss_is_noticed_by_a_process_with_more_than_a_thousand_open_files():
    """There `select` fails: its numbers end at 1023."""
    most, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed < 1600:
        pytest.skip(f"only {allowed} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, 1600), allowed))
    ours, theirs = socket.socketpair()
    try:
        number = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD, 1500)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, allowed))
    with ours, theirs, socket.socket(fileno=number) as line:
        line.setblocking(False)
        peers = Peers(None)
        peers._lines[line] = "chief 0"
        theirs.sendall(b"greeting")
        assert peers.lost() == []
        assert peers.lost() == []
        theirs.close()
        assert peers.lost() == ["chief 0"]
        assert peers.lost() == ["chief 0"]


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError(), OSError(113, "")])
def test_every_error_of_a_connection_is_a_loss(error):
    class Line:
        def recv(self, size):
            raise error

        def close(self):
            pass

    peers = Peers(None)
    peers._lines[Line()] = "worker 3"
    assert peers.lost() == ["worker 3"]
