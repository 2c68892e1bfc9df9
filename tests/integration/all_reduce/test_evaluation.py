"""Workers that evaluate together find what one process finds."""

import collections

import pytest
import tensorflow as tf

import replicate

v1 = tf.compat.v1


def model(metrics):
    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        predictions = tf.matmul(features["x"], kernel)
        loss = v1.losses.mean_squared_error(labels, predictions)
        if mode == replicate.ModeKeys.TRAIN:
            optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
            train_op = optimizer.minimize(loss, v1.train.get_global_step())
            return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)
        found = metrics(labels, predictions)
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops=found)

    return model_fn


def sums(labels, predictions):
    return {"mean": v1.metrics.mean(predictions), "above": v1.metrics.mean(predictions > 0)}


@pytest.fixture
def batches(workers):
    """Makes an input_fn of all rows."""

    def make(batch=5, share=lambda dataset: dataset):
        rows = workers.rows(0, 12)
        return lambda: share(tf.data.Dataset.from_tensor_slices(rows)).batch(batch)

    return make


@pytest.fixture
def evaluate(workers):
    """Evaluates the initial variables. Returns each worker's results or error."""

    def together(model_fn, input_fn, folder, count=2, steps=None, devices=("/cpu:0",)):
        settings = replicate.AllReduce(timeout_secs=10, evaluates=True)

        def work(role):
            replicated = replicate.replicate_model_fn(model_fn, devices=devices, uneven="weighted")
            return workers.estimator(replicated, folder, role, settings).evaluate(
                input_fn, steps=steps
            )

        return workers.at_once(work, workers.shared(count))

    return together


@pytest.mark.parametrize(
    ("count", "steps", "devices"), [(3, 2, ["/cpu:0"]), (2, None, ["/cpu:0", "/cpu:1"])]
)
def test_workers_evaluate_as_one_process(
    workers, batches, evaluate, tmp_path, count, steps, devices
):
    """Three batches, or two of them: with three workers the last one has none."""
    expected = workers.estimator(model(sums), tmp_path / "one").evaluate(batches(), steps=steps)
    found = evaluate(model(sums), batches(), tmp_path / "many", count, steps, devices)
    assert found == [pytest.approx(expected, rel=0, abs=1e-6)] * count
    assert len(list((tmp_path / "many" / "eval").glob("events*"))) == 1, "the chief writes them"


def test_input_that_is_shared_already_is_not_shared_again(workers, batches, evaluate, tmp_path):
    expected = workers.estimator(model(sums), tmp_path / "one").evaluate(batches(1))
    found = evaluate(model(sums), batches(1, replicate.worker_share), tmp_path / "many")
    assert found == [pytest.approx(expected, rel=0, abs=1e-6)] * 2


def test_evaluations_of_nothing_or_of_other_metrics_or_tensors_are_refused(
    workers, batches, evaluate, tmp_path
):
    def uneven(labels, predictions, calls=[]):  # noqa: B006
        calls.append(1)
        return {"mean": v1.metrics.mean(predictions, name=f"mean_{len(calls)}")}

    def tensors():
        return tf.nest.map_structure(tf.constant, workers.rows(0, 4))

    nothing = evaluate(model(sums), lambda: batches()().take(0), tmp_path)
    assert ["ended before its first batch" in str(each) for each in nothing] == [True] * 2, nothing
    differing = evaluate(model(uneven), batches(), tmp_path)
    assert [type(each) for each in differing] == [replicate.WorkersDifferError] * 2
    assert "worker 0 at " in str(differing[0])
    assert "evaluates something else than chief 0 at " in str(differing[1])
    for each in evaluate(model(sums), tensors, tmp_path):
        assert "must return a tf.data.Dataset to be evaluated by 2 workers" in str(each)


def test_all_workers_evaluate_while_they_train(workers, batches, tmp_path):
    """The same checkpoints, with the results that one process has."""
    seen = collections.Counter()

    class Report(v1.train.SessionRunHook):
        def after_create_session(self, session, coord):
            seen[int(session.run(v1.train.get_global_step()))] += 1

    def work(role):
        settings = replicate.AllReduce(timeout_secs=10, evaluates=True)
        estimator = workers.estimator(
            model(sums), tmp_path, role, settings, save_checkpoints_steps=2
        )
        return replicate.train_and_evaluate(
            estimator,
            replicate.TrainSpec(lambda: replicate.worker_share(batches()()).repeat(), max_steps=4),
            replicate.EvalSpec(batches(), steps=None, hooks=[Report()], throttle_secs=0),
        )[0]

    found = workers.at_once(work, workers.shared(2))
    expected = workers.estimator(model(sums), tmp_path).evaluate(batches())
    assert found == [pytest.approx(expected, rel=0, abs=1e-6)] * 2
    assert found[0]["global_step"] == 4
    assert seen[4] == 2
    assert set(seen.values()) == {2}
    assert len(seen) > 1


def test_the_only_worker_evaluates_alone(workers, batches, tmp_path):
    """As one that is left by the others, or a launch of one worker."""
    (role,) = workers.new(1)
    settings = replicate.AllReduce(evaluates=True)
    estimator = workers.estimator(model(sums), tmp_path, role, settings, save_checkpoints_steps=2)
    found, _ = replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(lambda: batches()().repeat(), max_steps=3),
        replicate.EvalSpec(batches(), steps=None),
    )
    expected = workers.estimator(model(sums), tmp_path).evaluate(batches())
    assert found == pytest.approx(expected, rel=0, abs=1e-6)
    assert found["global_step"] == 3
