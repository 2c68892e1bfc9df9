import pytest
import tensorflow as tf

from kfac.update.cluster_refresh import ClusterWork, RefreshByWorkers
from kfac.worker_roles import WorkerRole

v1 = tf.compat.v1


class Step:
    """Keeps the operations that it is made after."""

    def __init__(self):
        self.steps = v1.get_variable("steps", initializer=tf.constant(0, tf.int64))

    def make_variables(self):
        pass

    def counter(self, name):
        assert name == "counter"
        return self.steps

    def make(self, *_):
        done = tf.no_op()
        self.before = [op for op in done.control_inputs if op.type == "NoOp"]
        return done


class Curvature:
    """Factors with inverses, and one without."""

    class Factor:
        inverse_cost = 1.0

        def __init__(self, variables):
            self.inverse_update_vars = variables

    def __init__(self, variable, inverses):
        self.batch = v1.placeholder(tf.float32, [], name="batch")
        losses = {"loss": tf.square(self.batch).op}
        kept = {"registered_variables": [variable], "loss_colocation_ops": losses}
        self.layers = type("Layers", (), kept)
        self.factors = [*(self.Factor([variable]) for _ in range(inverses)), self.Factor([])]
        self.inverted = []
        self.due = []

    def has_averages(self):
        return tf.constant(True)

    has_statistics = has_refused = has_averages

    def make_accumulation_op(self, due):
        return tf.no_op()

    def make_cov_update_op(self, due):
        return tf.no_op()

    def make_inv_update_op(self, due, indices):
        self.inverted.append(tuple(indices))
        self.due.append(due)
        return tf.no_op()


@pytest.fixture
def build(graph):
    """A function that builds the work of a role: (work, step, curvature)."""

    def build(*role, inverses=1):
        variable = v1.get_variable("w", initializer=tf.zeros([2]))
        step, curvature = Step(), Curvature(variable, inverses)
        shares = RefreshByWorkers(WorkerRole(*role), 10, 1)
        work = ClusterWork(shares, step, curvature, "KFAC")
        global_step = v1.train.get_or_create_global_step()
        work.train_op([(tf.ones([2]), variable)], global_step, None)
        return work, step, curvature

    return build


def test_the_step_waits_for_inverses_but_summaries_do_not(build):
    work, step, curvature = build("shared", 2, 0)
    assert len(step.before) == 1
    assert not RefreshByWorkers(WorkerRole("shared", 2, 0), 10, 1).due(None).summaries_wait
    assert curvature.inverted == [(0,), (0,)]  # As its owner, and as the chief.
    assert [v.op.name for v in work.variables] == ["kfac/invert_at"]


def test_a_worker_without_a_batch_computes_no_inverses(build, session):
    """It would race with the end of the run that found the end of the input."""
    _, _, curvature = build("shared", 2, 0)
    session.run(v1.global_variables_initializer())
    assert session.run(curvature.due[0], {curvature.batch: 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError, match="batch"):
        session.run(curvature.due[0])


@pytest.mark.parametrize(("index", "queued"), [(0, []), (4, [(0,), (1,)])])
def test_a_dedicated_worker_queues_the_factors_that_have_inverses(build, index, queued):
    work, _, curvature = build("dedicated_workers", 5, index, inverses=2)
    assert (work.inverse_queue is not None) == bool(queued)
    if queued:
        assert len(work.inverse_queue.ops) == len(queued)
        assert curvature.inverted[: len(queued)] == queued


def test_the_global_step_is_required(graph):
    work = ClusterWork(RefreshByWorkers(WorkerRole("shared", 1, 0), 10, 1), None, None, "KFAC")
    with pytest.raises(ValueError, match=r"global_step=None\. The workers tell by it"):
        work.train_op([], None, None)
    assert work.variables == []
