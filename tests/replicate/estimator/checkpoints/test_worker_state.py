"""State of one worker beside the checkpoints of the chief."""

import tensorflow as tf

from replicate.estimator.checkpoints.worker_state import WorkerState

v1 = tf.compat.v1


def test_the_state_of_a_step_is_loaded_and_later_ones_are_removed(graph, tmp_path):
    """A run that goes on from an earlier checkpoint makes the later ones anew."""
    variable = v1.get_variable("slot", initializer=0.0)
    first, second = (WorkerState([variable], str(tmp_path), 1, 3, kept=2) for _ in range(2))
    value = v1.placeholder(tf.float32, [])
    change = variable.assign(value)
    folder = tmp_path / "worker_state" / "1_of_3"

    def steps():
        return sorted(int(path.stem.rpartition("-")[2]) for path in folder.glob("*.index"))

    with v1.Session() as session:
        for step in (3, 6, 9):
            session.run(change, {value: step})
            first.save(session, step)
        assert steps() == [6, 9]
        second.restore(session, 6)
        assert (session.run(variable), steps()) == (6.0, [6])
        session.run(change, {value: 0.5})
        second.restore(session, 8)
        assert session.run(variable) == 0.5, "there is none for that step"
        for step in (9, 12):
            second.save(session, step)
        assert steps() == [9, 12]
        WorkerState([], str(tmp_path), 2, 3, kept=2).save(session, 12)
    assert not (tmp_path / "worker_state" / "2_of_3").exists()


def test_a_state_that_lacks_variables_is_not_loaded(graph, tmp_path):
    """Other settings keep other variables: then all workers start with the chief's values."""
    slot, rest = (v1.get_variable(name, initializer=0.5) for name in ("slot", "rest"))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        WorkerState([slot], str(tmp_path), 1, 2, kept=None).save(session, 3)
        session.run(slot.assign(2.0))
        WorkerState([slot, rest], str(tmp_path), 1, 2, kept=None).restore(session, 3)
        assert session.run([slot, rest]) == [2.0, 0.5]
        WorkerState([slot], str(tmp_path), 1, 2, kept=None).restore(session, 3)
        assert session.run(slot) == 0.5
