"""The newest whole step is handed over by the first worker that is left."""

import threading

import pytest
import tensorflow as tf

from replicate.all_reduce.round_variables import RoundVariables
from replicate.errors import CheckpointError
from replicate.estimator.hooks import hand_over
from replicate.estimator.hooks.hand_over import HandOverHook
from replicate.estimator.hooks.readings import StepReadings

v1 = tf.compat.v1
NAMES = ("chief 0 at 'a:1'", "worker 0 at 'b:1'", "worker 1 at 'c:1'")


class Worker:
    """A worker of some, whose variables are set by hand; `lost` has the names of lost ones."""

    def __init__(self, folder, rank, size=3, step=5, make=lambda: None):
        """`make` adds variables to the model."""
        self.lost = []
        self.is_by_signal = self.are_equal = False
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._step = v1.train.create_global_step()
            self._weight = v1.get_variable("weight", initializer=1.0, use_resource=False)
            self._count = v1.get_variable("count", initializer=tf.constant(7, tf.int64))
            self.made = make()
            self.hook = HandOverHook(
                StepReadings(tf.no_op(), None),
                type("Position", (), {"elements": self._count.read_value()}),
                str(folder),
                NAMES[:size],
                rank,
                lambda: self.lost,
                lambda: self.are_equal,
                lambda: self.is_by_signal,
            )
            self.hook.begin()
            self.session = v1.Session()
            self._new = v1.placeholder(tf.float32, [])
            self._change = self._weight.assign(self._new)
            self.session.run(v1.global_variables_initializer())
            self.session.run(self._step.assign(step))
            self.session.run(v1.local_variables_initializer())

    def begin(self):
        self.hook.after_create_session(self.session, None)
        return self

    def change(self, weight):
        self.session.run(self._change, {self._new: weight})

    def load(self):
        """Loads, and returns the number of batches and the weight."""
        elements = self.hook.state.load(self.session)
        return elements, self.session.run(self._weight)


def test_what_is_handed_over_is_the_newest_whole_step(tmp_path):
    worker = Worker(tmp_path, rank=1).begin()
    worker.change(2.0)
    worker.are_equal = True
    worker.hook.after_run(None, None)
    worker.change(3.0)  # By a step that fails, or a local one between two rounds.
    worker.are_equal = False
    worker.hook.after_run(None, None)
    worker.lost = [NAMES[0]]
    worker.hook.hand_over()
    worker.change(4.0)
    worker.hook.hand_over()  # Once is enough.
    assert Worker(tmp_path, 0, size=2, step=4).load() == (7, 2.0)
    assert Worker(tmp_path, 0, size=2, step=5).load() == (7, 2.0)
    assert Worker(tmp_path, 0, size=3, step=5).load() == (None, 1.0), "its checkpoint has the step"
    chief = Worker(tmp_path, 0, size=2, step=6)
    assert chief.load() == (None, 1.0), "its checkpoint is newer"
    assert list(tmp_path.glob("worker_state/hand_over/*.index"))
    chief.begin()
    assert not list(tmp_path.glob("worker_state/hand_over/*.index"))


def test_what_a_cut_off_worker_hands_over_late_does_not_count(tmp_path):
    late = Worker(tmp_path, rank=2, step=3).begin()
    chief = Worker(tmp_path, rank=0, size=2, step=4).begin()
    late.lost = list(NAMES[:2])
    late.hook.hand_over()
    chief.change(2.0)
    chief.are_equal = True
    chief.hook.after_run(None, None)
    chief.hook.hand_over()
    assert Worker(tmp_path, 0, size=1, step=4).load() == (7, 2.0)


def test_a_worker_waits_for_those_before_it_unless_they_are_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(hand_over, "POLL_SECS", 0.01)
    first, second = (Worker(tmp_path, rank).begin() for rank in (1, 2))
    first.lost, second.lost = [], [NAMES[0]]
    waiting = [threading.Thread(target=each.hook.hand_over) for each in (first, second)]
    for thread in waiting:
        thread.start()
    waiting[1].join(0.1)
    assert waiting[1].is_alive()
    assert not first.hook.state.exists()
    first.lost = [NAMES[0]]
    for thread in waiting:
        thread.join(20)
    (path,) = tmp_path.glob("worker_state/hand_over/*.index")
    assert path.name == "1_of_3-5.index"


@pytest.mark.parametrize("is_by_signal", [True, False])
def test_a_signal_hands_over_since_the_number_of_workers_may_change(tmp_path, is_by_signal):
    chief = Worker(tmp_path, 0).begin()
    chief.is_by_signal = is_by_signal
    chief.change(2.0)
    chief.hook.end(chief.session)
    expected = (7, 2.0) if is_by_signal else (None, 1.0)
    assert Worker(tmp_path, 0, size=1).load() == expected


def test_a_state_without_what_rounds_keep_is_loaded_as_such_a_checkpoint(tmp_path):
    """A worker that was left alone keeps nothing for rounds, which begin when others come back."""
    alone = Worker(tmp_path, 0, size=1).begin()
    alone.is_by_signal = True
    alone.change(2.0)
    alone.hook.end(alone.session)

    def sent():
        variable = RoundVariables().saved("outer/sent", 3.0)
        return variable, variable.assign(4.0)

    chief = Worker(tmp_path, 0, size=2, make=sent)
    chief.session.run(chief.made[1])  # From an older checkpoint.
    assert chief.load() == (7, 2.0)
    assert chief.session.run(chief.made[0]) == 3.0


def test_a_state_of_another_model_is_refused_in_one_line(tmp_path):
    alone = Worker(tmp_path, 0, size=1).begin()
    alone.is_by_signal = True
    alone.hook.end(alone.session)
    other = Worker(tmp_path, 0, 2, make=lambda: v1.get_variable("bias", initializer=1.0))
    with pytest.raises(CheckpointError, match=r"hand_over.* lacks 1 of the 4 variables.*: bias"):
        other.load()


def test_weights_that_are_not_finite_are_not_handed_over(tmp_path, own_log):
    """The next group would go on with them, instead of from the newest checkpoint."""
    worker = Worker(tmp_path, 0)
    worker.change(float("inf"))
    worker.begin().hook.hand_over()
    assert not worker.hook.state.exists()
    (line,) = [each for each in own_log.messages if "Step 0 was not handed over" in each]
    assert "weight is not finite" in line


def test_a_model_directory_that_cannot_be_reached_does_not_keep_a_worker(
    tmp_path, monkeypatch, own_log
):
    """An error would end the watchdog's thread, and nothing would end the step that hangs."""
    worker = Worker(tmp_path, rank=1).begin()

    def fail(self):
        raise tf.errors.UnavailableError(None, None, "no route to the storage")

    monkeypatch.setattr(type(worker.hook.state), "exists", fail)
    worker.hook.hand_over()
    assert any("not handed over: no route to the storage" in each for each in own_log.messages)
