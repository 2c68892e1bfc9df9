import threading

import pytest
import tensorflow as tf

from replicate.model_average.round_state import EXCUSED, JOINED, LEFT, Board, is_worker_key, worker_key

v1 = tf.compat.v1


@pytest.fixture
def board(graph):
    return Board("test", "")


def test_notes_are_read_as_written(board):
    reads = [board.ticket(), board.read("a"), board.read("b", missing=4)]
    opened, written = board.open(tf.constant(7, tf.int64)), board.write("a", -1)
    with v1.Session() as session:
        assert session.run(reads) == [0, -3, 4]
        session.run([opened, written])
        session.run(board.write_fed, {board.fed_key: "b", board.fed_value: 5})
        assert session.run(reads) == [7, -1, 5]
        keys, values = session.run(board.notes)
    assert dict(zip(keys, values, strict=True)) == {b"ticket": 7, b"a": -1, b"b": 5}


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({}, 3),
        ({worker_key("a"): LEFT}, 2),
        ({worker_key(name): LEFT for name in "abc"}, 1),
        ({worker_key("a"): JOINED, worker_key("b"): 4, "ticket": LEFT}, 3),
        ({worker_key("a"): JOINED, worker_key("b"): 4, EXCUSED: 1}, 2),
        ({worker_key("a"): JOINED, worker_key("b"): LEFT, EXCUSED: 1}, 1),
        ({worker_key("a"): JOINED, EXCUSED: 0}, 3),
    ],
)
def test_a_round_expects_who_takes_part(board, notes, expected):
    count = board.expected(3)
    with v1.Session() as session:
        for key, value in notes.items():
            session.run(board.write_fed, {board.fed_key: key, board.fed_value: value})
        assert session.run(count) == expected


def test_keys_of_workers():
    assert is_worker_key(worker_key("/job:worker/task:0"))
    assert is_worker_key(worker_key(""))
    assert not is_worker_key(EXCUSED)


@pytest.mark.parametrize("functional", [True, False])
def test_a_token_wakes_only_when_the_round_has_ended(graph, functional):
    (v1.enable_control_flow_v2 if functional else v1.disable_control_flow_v2)()
    try:
        board = Board("test", "")
        waiting = board.wait(tf.constant(4, tf.int64))
    finally:
        v1.enable_control_flow_v2()
    ticket = v1.placeholder(tf.int64, [])
    opened, woken = board.open(ticket), board.wake(ticket, 1)
    with v1.Session() as session:
        session.run(waiting)  # Round 0 is open: nobody waits for round 4.
        session.run(opened, {ticket: 4})
        for stale in (2, 4):
            session.run(woken, {ticket: stale})
        thread = threading.Thread(target=session.run, args=(waiting,), daemon=True)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        session.run(opened, {ticket: 5})
        session.run(woken, {ticket: 5})  # A token of the next round wakes nobody of this one.
        thread.join(0.3)
        assert thread.is_alive()
        session.run(woken, {ticket: 4})
        thread.join(30)
        assert not thread.is_alive()
