import json

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from replicate.estimator.evaluating import run_evaluation, write_results
from replicate.estimator.hooks.event_file import EventFiles
from replicate.estimator.input_batches import Inputs
from replicate.estimator.run_config import RunConfig
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1
CONFIG = RunConfig(progress="off")


def evaluate(rows, steps=None, hooks=(), scaffold=None, **metrics):
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
    results = evaluate([1, 2, 6], mean=v1.metrics.mean)
    assert results == {"mean": 3.0, "loss": np.mean([1.5, 6]), "global_step": 0}


def test_metrics_may_be_nests_and_operations(graph):
    def nest(features):
        value, update = v1.metrics.mean(features)
        return (value, {"a": 2 * value}), (update, tf.no_op())

    results = evaluate([1, 2, 6], nest=nest, operation=lambda _: (tf.no_op(), tf.no_op()))
    assert results["nest"] == (3.0, {"a": 6.0})
    assert results["operation"] is None


def test_steps_limit_the_batches(graph):
    assert evaluate([1, 2, 6], steps=1)["loss"] == 1.5


def test_more_steps_than_batches(graph):
    assert evaluate([1, 2, 6], steps=9)["loss"] == np.mean([1.5, 6])


def test_hooks_see_every_batch(graph, linear):
    seen = []
    evaluate([1, 2, 6], hooks=[linear.CallHook(seen.append)])
    assert seen == [0, 0]


def test_no_batch_is_an_error(graph):
    with pytest.raises(ValueError, match="the input ended before its first batch"):
        evaluate([])


@pytest.mark.parametrize("name", ["loss", "global_step"])
def test_reserved_names(graph, name):
    with pytest.raises(ValueError, match=rf"must not hold \['{name}'\]"):
        evaluate([1.0], **{name: v1.metrics.mean})


def test_results_are_written_at_their_step(tmp_path):
    write_results(
        str(tmp_path),
        {"accuracy": np.float32(0.5), "matrix": np.eye(2, dtype=np.float32), "global_step": 30},
        EventFiles(),
    )
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
    results = evaluate(
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
    results = evaluate([1, 2, 6], scaffold=scaffold, own=lambda features: (local, tf.no_op()))
    assert results == {"own": 7.0, "loss": np.mean([1.5, 6]), "global_step": 0}


def test_results_written_within_a_second_are_all_kept(tmp_path):
    for step in (1, 2):
        write_results(str(tmp_path), {"loss": 1.0, "global_step": step}, EventFiles())
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 2
