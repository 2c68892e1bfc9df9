"""TPUEstimatorSpec: its functions, its host call, and its translation."""

import glob

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import tpu
from replicate.errors import ArgumentTypeError
from replicate.tpu.spec import HostCallHook

v1 = tf.compat.v1
TWO = ["/cpu:0", "/cpu:1"]
ROWS = np.array([[1.0], [2.0], [3.0], [6.0]], "f4")


class Hook(v1.train.SessionRunHook):
    """A hook that does nothing."""


def mean_of(values, weights):
    return {"mean": v1.metrics.mean(values, weights)}


def test_eval_metrics_are_made_of_a_list_or_dict(graph):
    values, weights = tf.constant([1.0, 2.0]), tf.constant([1.0, 3.0])
    specs = [
        tpu.TPUEstimatorSpec("eval", loss=tf.constant(1.0), eval_metrics=(function, tensors))
        for function, tensors in [
            (mean_of, [values, weights]),
            (mean_of, {"weights": weights, "values": values}),
            (dict, {}),  # A function without a signature.
        ]
    ]
    *made, empty = (spec.as_estimator_spec().eval_metric_ops for spec in specs)
    assert empty == {}
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        for value, update in (each["mean"] for each in made):
            session.run(update)
            assert session.run(value) == 1.75
    with pytest.raises(ValueError, match=r"for mode 'eval': loss is None"):
        tpu.TPUEstimatorSpec("eval").as_estimator_spec()


def test_all_fields_are_passed_on(graph):
    loss, scaffold, train_op = tf.constant(1.0), v1.train.Scaffold(), tf.no_op()
    hooks = {f"{mode}_hooks": [Hook()] for mode in ("training", "evaluation", "prediction")}
    outputs = {"serving_default": replicate.export.PredictOutput({"y": loss})}
    rest = (None, outputs, lambda: scaffold, None, *hooks.values())
    made = tpu.TPUEstimatorSpec("train", {"y": loss}, loss, train_op, *rest).as_estimator_spec()
    assert made == replicate.EstimatorSpec(
        "train", {"y": loss}, loss, train_op, export_outputs=outputs, scaffold=scaffold, **hooks
    )
    assert type(made) is replicate.EstimatorSpec


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"eval_metrics": mean_of}, ValueError, r"eval_metrics must be a pair \(function, tensors"),
        ({"host_call": (mean_of,)}, ValueError, r"host_call must be a pair \(function, tensors"),
        ({"eval_metrics": (3, [])}, ArgumentTypeError,
         r"eval_metrics\[0\] must be a function, got 3"),
        ({"host_call": (mean_of, 3)}, TypeError, r"host_call\[1\] must be a list .* got 3"),
        ({"eval_metrics": (mean_of, [1, 2, 3])}, TypeError,
         r"mean_of \(.*test_spec\.py:\d+\), takes \(values, weights\), .* gives it 3 tensors"),
        ({"host_call": (mean_of, {"values": 1})}, TypeError, r"\['values'\]: missing .* 'weights'"),
        ({"scaffold_fn": 3}, TypeError, r"scaffold_fn must be a function without .* got 3"),
        ({"training_hooks": [3]}, TypeError, r"training_hooks must hold instances of .* got 3"),
        ({"prediction_hooks": Hook()}, TypeError, r"prediction_hooks must be a list of hooks"),
    ],
)  # fmt: skip
def test_wrong_fields_are_refused(fields, error, text):
    with pytest.raises(error, match=text):
        tpu.TPUEstimatorSpec("eval", **fields)


def model_fn(folder, checkpoint, calls):
    """A model whose host call writes the sum of its rows and the step, and counts its runs.

    As in BERT its `scaffold_fn`, whose calls are counted, loads a checkpoint of another model.
    """

    def host_call(step, total):
        with tf.summary.create_file_writer(folder).as_default(), tf.summary.record_if(True):
            tf.summary.scalar("total", total, step=step)
        runs = v1.get_local_variable("runs", [], tf.int64, v1.initializers.zeros())
        return [v1.summary.all_v2_summary_ops(), v1.assign_add(runs, 1)]

    def scaffold_fn():
        calls.append(None)
        v1.train.init_from_checkpoint(checkpoint, {"old/weight": "weight"})
        return v1.train.Scaffold()

    def model_fn(features, labels, mode, params):
        weight = v1.get_variable("weight", [], initializer=v1.initializers.ones())
        loss = tf.reduce_mean(features) * weight
        step = v1.train.get_global_step()
        optimizer = tpu.CrossShardOptimizer(v1.train.GradientDescentOptimizer(0.0))
        return tpu.TPUEstimatorSpec(
            mode,
            predictions=features,
            loss=loss,
            train_op=optimizer.minimize(loss, step),
            host_call=(host_call, [step, tf.reduce_sum(features)]),
            scaffold_fn=scaffold_fn if mode == "train" else None,
        )

    return model_fn


class Runs(v1.train.SessionRunHook):
    """Reads the number of runs of a host call after each step."""

    def __init__(self):
        self.counts = []

    def after_run(self, run_context, run_values):
        (runs,) = (v for v in v1.local_variables() if v.op.name.endswith("runs"))
        self.counts.append(int(run_context.session.run(runs)))


def totals(folder):
    """Returns the values that a host call wrote."""
    events = [
        event
        for path in glob.glob(f"{folder}/events*")
        for event in v1.train.summary_iterator(path)
        if event.summary.value
    ]
    return [float(tf.make_ndarray(event.summary.value[0].tensor)) for event in events]


@pytest.fixture
def checkpoint(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        old = v1.get_variable("old/weight", initializer=4.0)
        session.run(old.initializer)
        return v1.train.Saver().save(session, str(tmp_path / "old"))


@pytest.mark.parametrize(
    ("devices", "trained", "evaluated"),
    [pytest.param(None, 12, 12, marks=pytest.mark.broad), (TWO, 9, 3)],
)
def test_host_call_runs_in_each_step(
    devices, trained, evaluated, checkpoint, tmp_path, plain_sessions
):
    """On towers it is that of the last one in TRAIN, of the first one otherwise."""
    events, calls = str(tmp_path / "host"), []
    estimator = tpu.TPUEstimator(
        model_fn(events, checkpoint, calls),
        str(tmp_path / "model"),
        tpu.RunConfig(progress="off"),
        use_tpu=False,
        devices=devices,
    )

    def input_fn(params):
        return tf.data.Dataset.from_tensors(ROWS).repeat(3)

    hook = Runs()
    estimator.train(input_fn, [hook], steps=2)
    assert hook.counts == [1, 2]
    assert totals(events) == [trained] * 2
    assert len(calls) == 1
    assert estimator.get_variable_value("weight") == 4
    hook = Runs()
    estimator.evaluate(input_fn, hooks=[hook])
    assert hook.counts == [1, 2, 3]
    assert sorted(totals(events)) == sorted([trained] * 2 + [evaluated] * 3)
    hook = Runs()
    assert len(list(estimator.predict(input_fn, hooks=[hook]))) == 12
    assert hook.counts == [1, 2, 3]


def test_host_call_hook_flushes_its_writers_at_the_end_of_the_session(graph, tmp_path):
    """A writer holds its events back for two minutes, and as long as its session may live."""
    with tf.summary.create_file_writer(str(tmp_path)).as_default(), tf.summary.record_if(True):
        tf.summary.scalar("total", 7.0, step=3)
    hook = HostCallHook(v1.summary.all_v2_summary_ops())
    with v1.Session() as session:
        hook.after_create_session(session, None)
        session.run(hook.before_run(None).fetches)
        assert totals(tmp_path) == []
        hook.end(session)
        assert totals(tmp_path) == [7.0]
