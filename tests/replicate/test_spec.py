import numpy as np
import pytest
import tensorflow as tf

from replicate.export import PredictOutput, RegressionOutput
from replicate.spec import EstimatorSpec, ModeKeys, checked_hooks

v1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("graph")


def train_spec(**changes):
    fields = {"loss": tf.constant(1.0), "train_op": tf.no_op(), **changes}
    return EstimatorSpec(ModeKeys.TRAIN, **fields)


def test_defaults():
    spec = EstimatorSpec(ModeKeys.PREDICT, tf.zeros([2]))
    assert spec.loss is None
    assert spec.train_op is None
    assert spec.eval_metric_ops == {}
    assert isinstance(spec.scaffold, v1.train.Scaffold)
    assert spec._replace(prediction_hooks=[]).scaffold is spec.scaffold
    assert spec.training_hooks == spec.training_chief_hooks == ()
    assert spec.evaluation_hooks == spec.prediction_hooks == ()
    assert train_spec().predictions == {}


def test_hooks_and_metrics_keep_their_values():
    hook, pair = v1.train.SessionRunHook(), (tf.constant(1.0), tf.no_op())
    assert train_spec(eval_metric_ops={"a": pair}).eval_metric_ops == {"a": pair}
    for role in ("training", "training_chief", "evaluation", "prediction"):
        assert getattr(train_spec(**{f"{role}_hooks": [hook]}), f"{role}_hooks") == (hook,)


def test_predictions_are_the_default_export_output():
    predictions = {"a": tf.zeros([2]), "b": tf.ones([2])}
    spec = EstimatorSpec(ModeKeys.PREDICT, predictions)
    assert list(spec.export_outputs) == ["serving_default"]
    assert spec.export_outputs["serving_default"].outputs == predictions
    assert spec._replace(prediction_hooks=[]).export_outputs == spec.export_outputs
    assert train_spec(predictions=predictions).export_outputs is None


def test_single_export_output_is_also_the_default():
    output = RegressionOutput(tf.zeros([2]))
    spec = EstimatorSpec(ModeKeys.PREDICT, tf.zeros([2]), export_outputs={"mine": output})
    assert spec.export_outputs == {"mine": output, "serving_default": output}


def test_one_of_several_export_outputs_must_be_the_default():
    outputs = {"a": PredictOutput(tf.zeros([2])), "b": PredictOutput(tf.ones([2]))}
    with pytest.raises(ValueError, match=r"there are export_outputs \['a', 'b'\], and none has"):
        EstimatorSpec(ModeKeys.PREDICT, tf.zeros([2]), export_outputs=outputs)
    named = {"serving_default": outputs["a"], "b": outputs["b"]}
    spec = EstimatorSpec(ModeKeys.PREDICT, tf.zeros([2]), export_outputs=named)
    assert spec.export_outputs == named
    assert train_spec(export_outputs=outputs).export_outputs == outputs


def test_loss_of_one_element_becomes_a_scalar(evaluate):
    loss = train_spec(loss=tf.constant([3.0])).loss
    assert loss.shape.rank == 0
    assert evaluate(loss) == np.float32(3.0)


@pytest.mark.parametrize(
    ("mode", "fields", "error", "text"),
    [
        ("learn", {}, ValueError, "mode is 'learn', which is none of"),
        ("train", {"train_op": True}, ValueError, "loss is None"),
        ("eval", {}, ValueError, "loss is None"),
        ("train", {"loss": []}, ValueError, "train_op is None"),
        ("infer", {}, ValueError, "predictions is None"),
        ("eval", {"loss": [2]}, ValueError, r"must be a scalar, got shape \(2,\)"),
    ],
)
def test_missing_or_misshapen_fields(mode, fields, error, text):
    made = {
        name: tf.no_op() if name == "train_op" else tf.zeros(shape)
        for name, shape in fields.items()
    }
    with pytest.raises(error, match=text):
        EstimatorSpec(mode, **made)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"loss": 1.0}, "loss must be a scalar Tensor, got 1.0"),
        ({"train_op": print}, "train_op must be an Operation or a Tensor"),
        ({"predictions": {"a": [1]}}, r"predictions must be .* got \[1\] for 'a'"),
        ({"eval_metric_ops": [1]}, "eval_metric_ops must be a dict"),
        ({"eval_metric_ops": {"a": 1}}, r"eval_metric_ops\['a'\] must be a pair"),
        ({"eval_metric_ops": {"a": (1, 2)}}, r"eval_metric_ops\['a'\] must be a pair"),
        ({"export_outputs": "a"}, "export_outputs must be a dict"),
        ({"export_outputs": {"a": 1}}, r"export_outputs\['a'\] must be an instance of .* got 1"),
        ({"training_hooks": [print]}, "training_hooks must hold instances of"),
        ({"scaffold": 1}, "scaffold must be a tf.compat.v1.train.Scaffold, got 1"),
    ],
)
def test_fields_of_a_wrong_type(fields, text):
    with pytest.raises(TypeError, match=text):
        train_spec(**fields)


def test_metrics_may_be_nests_of_tensors_and_operations():
    pairs = {
        "a": (tf.no_op(), tf.no_op()),
        "b": ({"c": tf.constant(1.0)}, (tf.no_op(), tf.constant(2))),
    }
    assert train_spec(eval_metric_ops=pairs).eval_metric_ops == pairs


@pytest.mark.parametrize(
    ("make_fields", "field"),
    [
        (lambda: {"loss": tf.constant(1.0, name="alien")}, "loss"),
        (lambda: {"train_op": tf.no_op("alien")}, "train_op"),
        (lambda: {"predictions": {"p": tf.zeros([2], name="alien")}}, r"predictions\['p'\]"),
        (
            lambda: {"eval_metric_ops": {"m": (tf.no_op("alien"), tf.no_op())}},
            r"eval_metric_ops\['m'\]",
        ),
    ],
)
def test_tensors_of_another_graph_are_refused_by_name(make_fields, field):
    with tf.Graph().as_default():
        fields = make_fields()
    with pytest.raises(ValueError, match=f": {field} is 'alien(:0)?' of another graph"):
        train_spec(**fields)


def test_replace_changes_and_checks():
    spec = train_spec()
    changed = spec._replace(mode=ModeKeys.TRAIN, loss=tf.constant([5.0]))
    assert changed.loss.shape.rank == 0
    assert changed.train_op is spec.train_op
    for fields, text in (
        ({"loss": None}, "loss is None"),
        ({"mode": ModeKeys.EVAL}, "Cannot change the mode"),
        ({"losses": 1}, r"Cannot replace \['losses'\]"),
    ):
        with pytest.raises(ValueError, match=text):
            spec._replace(**fields)


def test_checked_hooks_names_the_argument():
    with pytest.raises(TypeError, match="my_hooks must hold"):
        checked_hooks("my_hooks", [1])
    with pytest.raises(TypeError, match=r"my_hooks must be a list of hooks, got .*into a list"):
        checked_hooks("my_hooks", v1.train.StopAtStepHook(1))
    assert checked_hooks("my_hooks", None) == ()
