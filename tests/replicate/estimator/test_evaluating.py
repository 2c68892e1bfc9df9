"""Evaluation, metrics that are added to it, and prediction."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from replicate import Estimator, RunConfig
from replicate.estimator.added_metrics import add_metrics
from replicate.estimator.evaluating import run_evaluation, write_results
from replicate.estimator.hooks.event_file import EventFiles
from replicate.estimator.input_batches import Inputs
from replicate.estimator.predicting import (
    batches,
    endless_input,
    examples,
    open_prediction_session,
    select,
)
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1
CONFIG = RunConfig(progress="off")


def measure(rows, steps=None, hooks=(), scaffold=None, **metrics):
    """Evaluates a model whose loss is the mean of each batch."""
    v1.train.create_global_step()
    dataset = tf.data.Dataset.from_tensor_slices(np.array(rows, np.float32)).batch(2)
    iterator = v1.data.make_initializable_iterator(dataset)
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    features = iterator.get_next()
    made = {name: make(features) for name, make in metrics.items()}
    loss = tf.reduce_mean(features)
    spec = EstimatorSpec(ModeKeys.EVAL, loss=loss, eval_metric_ops=made, scaffold=scaffold)
    return run_evaluation(Inputs(features, None, None), spec, None, CONFIG, hooks, steps)


def test_metrics_weigh_rows_and_the_loss_weighs_batches(graph):
    results = measure([1, 2, 6], mean=v1.metrics.mean)
    assert results == {"mean": 3.0, "loss": np.mean([1.5, 6]), "global_step": 0}


def test_metrics_may_be_nests_and_operations(graph):
    def nest(features):
        value, update = v1.metrics.mean(features)
        return (value, {"a": 2 * value}), (update, tf.no_op())

    results = measure([1, 2, 6], nest=nest, operation=lambda _: (tf.no_op(), tf.no_op()))
    assert results["nest"] == (3.0, {"a": 6.0})
    assert results["operation"] is None


def test_steps_limit_the_batches_and_hooks_see_each(graph, linear):
    seen = []
    hooks = [linear.CallHook(seen.append)]
    assert measure([1, 2, 6, 6, 9], steps=2, hooks=hooks)["loss"] == np.mean([1.5, 6])
    assert seen == [0, 0]


def test_reserved_names_and_an_input_without_a_batch(graph):
    with pytest.raises(ValueError, match=r"must not hold \['global_step', 'loss'\]"):
        measure([1.0], loss=v1.metrics.mean, global_step=v1.metrics.mean)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="the input ended before its fir"):
        measure([])


def test_results_are_written_at_their_step(tmp_path, caplog):
    caplog.set_level("INFO", "tensorflow")
    write_results(
        str(tmp_path),
        {"accuracy": np.float32(0.5), "matrix": np.eye(2, dtype=np.float32), "global_step": 30},
        EventFiles(),
    )
    write_results(str(tmp_path / "log"), {"b": b"?", "a": 1.5, "global_step": 4}, EventFiles())
    assert "Saving dict for global step 4: a = 1.5, global_step = 4" in caplog.messages
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("accuracy")] == [(30, 0.5)]
    (matrix,) = events.Tensors("matrix")
    np.testing.assert_array_equal(tf.make_ndarray(matrix.tensor_proto), np.eye(2))
    [line] = (tmp_path / "metrics.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert found.pop("time") > 0
    assert found == {"step": 30, "evaluation": tmp_path.name, "accuracy": 0.5}


def test_summaries_as_metrics_get_the_tags_of_tf_estimator(graph, tmp_path):
    image = v1.summary.image("of_the_model", np.zeros([2, 1, 1, 1], np.float32))
    results = measure(
        [1.0],
        picture=lambda features: (image, tf.no_op()),
        note=lambda features: (v1.summary.text("note", tf.constant("seen")), tf.no_op()),
        empty=lambda features: (tf.constant(b""), tf.no_op()),
    )
    assert isinstance(results["picture"], bytes)
    write_results(str(tmp_path), results, EventFiles())
    [path] = tmp_path.glob("events.out.tfevents.*")
    found = {
        value.tag: value
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert sorted(found) == ["loss", "note/0", "picture/0", "picture/1"]
    assert found["picture/1"].image.width == 1
    assert found["note/0"].metadata.plugin_data.plugin_name == "text"
    assert tf.make_ndarray(found["note/0"].tensor) == b"seen"


def test_results_that_cannot_be_shown_are_left_out_with_a_warning(tmp_path, own_log):
    results = {"bytes": b"\xff\xff?", "pair": (1.0, 2.0), "none": None, "good": 2.0}
    write_results(str(tmp_path), {**results, "global_step": 1}, EventFiles())
    events = EventAccumulator(str(tmp_path)).Reload()
    assert events.Tags()["scalars"] == ["good"]
    first, second = own_log.messages
    assert "'bytes' is left out of the event file: its bytes are no Summary" in first
    assert "'pair' is left out of the event file: it is (1.0, 2.0), and must be a number" in second


def test_local_init_op_of_the_scaffold_runs_beside_that_of_the_metrics(graph):
    local = v1.Variable(7.0, collections=[])
    scaffold = v1.train.Scaffold(local_init_op=local.initializer)
    results = measure([1, 2, 6], scaffold=scaffold, own=lambda features: (local, tf.no_op()))
    assert results == {"own": 7.0, "loss": np.mean([1.5, 6]), "global_step": 0}


def model_fn(features, labels, mode):
    outputs = 2 * features
    loss = tf.reduce_mean(outputs)
    step = v1.assign_add(v1.train.get_global_step(), 1) if mode == ModeKeys.TRAIN else None
    mae = v1.metrics.mean_absolute_error(labels, outputs)
    return EstimatorSpec(mode, outputs, loss, step, {"mae": mae, "mean": v1.metrics.mean(outputs)})


@pytest.fixture
def make(tmp_path):
    def estimator(model_fn):
        return Estimator(model_fn, str(tmp_path), RunConfig(progress="off"), params=None)

    return estimator


def with_added(linear, estimator, metric_fn):
    results = add_metrics(estimator, metric_fn).evaluate(
        lambda: tf.data.Dataset.from_tensors((linear.Y, linear.X[:, :1]))
    )
    return results, 2 * linear.Y - linear.X[:, :1]


@pytest.mark.parametrize("towers", [None, 3])
def test_metrics_are_added_over_the_whole_batch_and_replace_those_of_the_same_name(
    linear, make, towers
):
    def metric_fn(features, labels, predictions, config):
        assert config.progress == "off"
        return {
            "mse": v1.metrics.mean_squared_error(labels, predictions),
            "mean": v1.metrics.mean(features),
        }

    devices = [f"/cpu:{tower}" for tower in range(towers or 0)]
    model = replicate_model_fn(model_fn, devices=devices) if towers else model_fn
    results, errors = with_added(linear, make(model), metric_fn)
    assert results["mse"] == pytest.approx(np.mean(np.square(errors)), rel=1e-5)
    assert results["mae"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-5)
    assert results["mean"] == pytest.approx(np.mean(linear.Y), rel=1e-5)


def test_wrong_metric_functions(make):
    with pytest.raises(ValueError, match=r"takes the arguments \['logits'\], but receives only"):
        add_metrics(make(model_fn), lambda logits, labels: {})
    with pytest.raises(TypeError, match="metric_fn must be a function, got 3"):
        add_metrics(make(model_fn), 3)


def numbers():
    return tf.data.Dataset.range(3).batch(1)


def queued():
    queue = v1.FIFOQueue(1, tf.int64, [[1]])
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue([[1]])]))
    return queue.dequeue()


@pytest.mark.parametrize(
    ("make_input", "is_endless"),
    [
        (lambda: tf.constant([1, 2]), True),
        (lambda: numbers().repeat(), True),
        (lambda: tf.data.Dataset.zip((numbers().repeat(), numbers().repeat())), True),
        (numbers, False),
        (lambda: numbers().repeat().take(2), False),
        (lambda: tf.data.Dataset.zip((numbers().repeat(), numbers())), False),
        (queued, False),
        (lambda: v1.data.make_one_shot_iterator(numbers().repeat()).get_next(), False),
        (lambda: tf.numpy_function(lambda: np.ones(1), [], tf.float64), False),
    ],
)
def test_endless_input_is_known_if_the_graph_shows_it(graph, evaluate, make_input, is_endless):
    made = make_input()
    if isinstance(made, tf.data.Dataset):
        v1.data.make_initializable_iterator(made).get_next()
    condition = endless_input()
    assert (condition is not None and evaluate(condition)) == is_endless


def test_input_that_must_be_fed_gives_no_warning(graph, caplog):
    spec = EstimatorSpec(ModeKeys.PREDICT, predictions=tf.constant([1]))
    condition = v1.placeholder(tf.bool, [])
    session = open_prediction_session(spec, None, CONFIG)
    next(batches(session, graph, spec.predictions, condition))
    assert "predict never ends" not in caplog.text


def test_select(caplog):
    predictions = {"a": 1, "b": 2}
    assert select(predictions, None) is predictions
    assert select(predictions, []) is predictions
    assert select(predictions, "a") == {"a": 1}
    assert not caplog.records
    assert select(predictions, ["c", "b"]) == {"b": 2}
    assert "No predictions for predict_keys ['c']" in caplog.text
    assert select(predictions, ["b", "a"]) == predictions
    with pytest.raises(ValueError, match=r"\['c'\]: the model's predictions are \['a', 'b'\]"):
        select(predictions, ["c"])
    with pytest.raises(ValueError, match="are a single Tensor"):
        select(1, ["c"])


@pytest.mark.parametrize(
    "values",
    [{"a": np.zeros(2), "b": np.zeros(3)}, {"a": np.zeros(2), "b": np.float32(1)}, np.float32(1)],
)
def test_values_without_a_common_batch(values):
    with pytest.raises(ValueError, match="must all have the batch as their first dimension"):
        list(examples(values))
