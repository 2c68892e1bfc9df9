import threading

import pytest
import tensorflow as tf

from kfac.update.background_updates import BackgroundUpdates

v1 = tf.compat.v1


class Calls:
    """Ops that call Python, and what they called so far."""

    def __init__(self):
        self.names = []
        self.fails = {}
        self._changed = threading.Condition()

    def op(self, name):
        def call():
            with self._changed:
                self.names.append(name)
                self._changed.notify_all()
                if name in self.fails:
                    raise self.fails[name]

        return tf.numpy_function(call, [], [])

    def wait_for(self, count):
        """Waits until so many ops have run."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.names) >= count, timeout=60)


@pytest.fixture
def calls():
    return Calls()


@pytest.fixture
def make(calls, session):
    """A function that makes rounds of an update of averages and three of inverses."""
    ops = [calls.op(name) for name in ("averages", "a", "b", "c")]

    def make(**kwargs):
        return BackgroundUpdates(session, ops[0], ops[1:], **{"num_threads": 2, **kwargs})

    return make


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("kfac_update")]


def wait_for_the_end():
    for thread in threads():
        thread.join(60)
    assert threads() == []


def test_rounds_follow_one_another_until_stopped(make, calls):
    updates = make()
    updates.start()
    assert sorted(calls.names[:4]) == ["a", "averages", "b", "c"]
    calls.wait_for(12)
    updates.stop()
    count = len(calls.names)
    for start in range(0, count - 3, 4):
        found = calls.names[start : start + 4]
        assert found[0] == "averages"
        assert sorted(found) == ["a", "averages", "b", "c"]
    assert threads() == []
    updates.stop()
    updates.check()
    assert len(calls.names) == count


def test_an_error_of_the_first_round_is_raised_at_once(make, calls):
    calls.fails["b"] = ValueError("no b")
    updates = make()
    with pytest.raises(tf.errors.InvalidArgumentError, match="no b"):
        updates.start()
    assert threads() == []


def test_the_end_of_the_input_is_no_error(graph, session):
    iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.range(5))
    updates = BackgroundUpdates(session, iterator.get_next().op, [], num_threads=1)
    updates.start()
    wait_for_the_end()
    updates.check()


def test_a_coordinator_ends_them(make, calls):
    coord = v1.train.Coordinator()
    make(coord=coord).start()
    calls.wait_for(8)
    coord.request_stop()
    coord.join(stop_grace_period_secs=60)
    assert threads() == []
