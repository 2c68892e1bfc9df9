import threading

import pytest
import tensorflow as tf

from replicate.model_average.round_state import (
    JOINED,
    LEFT,
    UNSEEN_DROPPED,
    RoundState,
    is_worker_key,
    worker_key,
)

v1 = tf.compat.v1


@pytest.fixture
def state(graph):
    return RoundState("test", "")


def test_entries_are_read_as_written(state):
    reads = [state.round_number(), state.read("a"), state.read("b", missing=4)]
    opened, written = state.open_round(tf.constant(7, tf.int64)), state.write("a", -1)
    with v1.Session() as session:
        assert session.run(reads) == [0, -3, 4]
        session.run([opened, written])
        session.run(state.write_fed, {state.fed_key: "b", state.fed_value: 5})
        assert session.run(reads) == [7, -1, 5]
        keys, values = session.run(state.entries)
    assert dict(zip(keys, values, strict=True)) == {b"ticket": 7, b"a": -1, b"b": 5}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, 3),
        ({worker_key("a"): LEFT}, 2),
        ({worker_key(name): LEFT for name in "abc"}, 1),
        ({worker_key("a"): JOINED, worker_key("b"): 4, "ticket": LEFT}, 3),
        ({worker_key("a"): JOINED, worker_key("b"): 4, UNSEEN_DROPPED: 1}, 2),
        ({worker_key("a"): JOINED, worker_key("b"): LEFT, UNSEEN_DROPPED: 1}, 1),
        ({worker_key("a"): JOINED, UNSEEN_DROPPED: 0}, 3),
    ],
)
def test_expected_workers_leaves_out_workers_that_left(state, entries, expected):
    count = state.expected_workers(3)
    with v1.Session() as session:
        for key, value in entries.items():
            session.run(state.write_fed, {state.fed_key: key, state.fed_value: value})
        assert session.run(count) == expected


def test_is_worker_key_tells_workers_from_other_entries():
    assert is_worker_key(worker_key("/job:worker/task:0"))
    assert is_worker_key(worker_key(""))
    assert not is_worker_key(UNSEEN_DROPPED)


@pytest.mark.parametrize("functional", [True, False])
def test_wait_ends_only_when_the_round_has_ended(graph, functional):
    (v1.enable_control_flow_v2 if functional else v1.disable_control_flow_v2)()
    try:
        state = RoundState("test", "")
        waiting = state.wait(tf.constant(4, tf.int64))
    finally:
        v1.enable_control_flow_v2()
    round_number = v1.placeholder(tf.int64, [])
    opened, woken = state.open_round(round_number), state.wake(round_number, 1)
    with v1.Session() as session:
        session.run(waiting)  # Round 0 is open: waiting for round 4 returns at once.
        session.run(opened, {round_number: 4})
        for stale in (2, 4):
            session.run(woken, {round_number: stale})
        thread = threading.Thread(target=session.run, args=(waiting,), daemon=True)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        session.run(opened, {round_number: 5})
        session.run(woken, {round_number: 5})  # A token of round 5 leaves round 4 waiting.
        thread.join(0.3)
        assert thread.is_alive()
        session.run(woken, {round_number: 4})
        thread.join(30)
        assert not thread.is_alive()
