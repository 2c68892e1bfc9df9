import numpy as np
import pytest
import tensorflow as tf

from replicate.export.outputs import (
    ClassificationOutput,
    EvalOutput,
    PredictOutput,
    RegressionOutput,
    TrainOutput,
    check_outputs,
    completed_outputs,
)

v1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("graph")


def names(tensor_infos):
    return {key: info.name for key, info in tensor_infos.items()}


def signatures():
    """Pairs of an output, its method, and the names of its signature's outputs."""
    value = tf.zeros([2], name="value")
    scores = tf.zeros([2, 3], name="scores")
    classes = tf.constant([["a", "b"]], name="classes")
    both = {"scores": "scores:0", "classes": "classes:0"}
    yield (
        PredictOutput({"a": value, ("b", "c"): value}),
        "predict",
        {"a": "value:0", "b/c": "value:0"},
    )
    yield RegressionOutput(value), "regress", {"outputs": "value:0"}
    yield ClassificationOutput(scores), "classify", {"scores": "scores:0"}
    yield ClassificationOutput(None, classes), "classify", {"classes": "classes:0"}
    yield ClassificationOutput(scores, classes), "classify", both


def test_signatures_of_serving():
    examples = {"examples": v1.placeholder(tf.string, [None], name="examples")}
    tensors = [
        {"x": tf.constant(1.0, name="x")},
        {"x": tf.constant("a"), "y": tf.constant("b")},
        {"words": v1.sparse_placeholder(tf.string)},
    ]
    for output, method, outputs in signatures():
        signature = output.as_signature_def(examples)
        assert signature.method_name == f"tensorflow/serving/{method}"
        name = "examples" if method == "predict" else "inputs"
        assert names(signature.inputs) == {name: "examples:0"}
        assert names(signature.outputs) == outputs
        if method == "predict":
            assert names(output.as_signature_def(tensors[0]).inputs) == {"x": "x:0"}
            continue
        for inputs in tensors:
            with pytest.raises(ValueError, match="needs a single string input of serialised"):
                output.as_signature_def(inputs)


def test_outputs_of_one_tensor_of_a_variable_and_of_none():
    value = tf.zeros([2])
    assert PredictOutput(value).outputs == {"output": value}
    variable = v1.get_variable("v", initializer=[3.0])
    with v1.Session() as session:
        session.run(variable.initializer)
        assert session.run(PredictOutput(variable).outputs["output"]) == [3.0]
    assert TrainOutput(predictions=value).predictions == {"predictions": value}
    found = TrainOutput(loss={"a": value, "loss/b": value}).loss
    assert found == {"loss/a": value, "loss/b": value}
    empty = EvalOutput(predictions={}, metrics={})
    assert (empty.loss, empty.predictions, empty.metrics) == (None, None, None)


@pytest.mark.parametrize(
    ("kind", "method"),
    [(TrainOutput, "tensorflow/supervised/training"), (EvalOutput, "tensorflow/supervised/eval")],
)
def test_supervised_signature(kind, method):
    output = kind(
        loss=tf.constant(1.0, name="l"),
        predictions={"p": tf.constant(2.0, name="p")},
        metrics={"m": v1.metrics.mean(tf.constant([1.0, 3.0])), "n": (tf.constant(5), tf.no_op())},
    )
    signature = output.as_signature_def({"x": tf.ones([1], name="x")})
    assert signature.method_name == method
    assert names(signature.inputs) == {"x": "x:0"}
    of_metrics = {f"metrics/{name}/{part}" for name in "mn" for part in ("update_op", "value")}
    assert set(signature.outputs) == {"loss", "predictions/p"} | of_metrics
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run([signature.outputs[f"metrics/{name}/update_op"].name for name in "mn"])
        assert session.run(signature.outputs["metrics/m/value"].name) == 2.0


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: PredictOutput({}), ValueError, "a PredictOutput of an empty dict"),
        (lambda: PredictOutput({1: tf.ones([1])}), ValueError, "must be strings .* got 1"),
        (lambda: PredictOutput(np.ones(1)), TypeError, "'output' must be a Tensor, got array"),
        (lambda: RegressionOutput(tf.constant([1])), TypeError, "value must be a floating point"),
        (lambda: RegressionOutput(1.0), TypeError, "a RegressionOutput: value must be .*got 1.0"),
        (ClassificationOutput, ValueError, "scores and classes are both None"),
        (lambda: ClassificationOutput(tf.constant(["a"])), TypeError, "scores must be a floating"),
        (lambda: ClassificationOutput(None, tf.ones([1])), TypeError, "classes must be a string"),
        (lambda: EvalOutput(metrics={"m": 1}), TypeError, r"an EvalOutput: metrics\['m'\] must"),
        (lambda: TrainOutput(loss=1.0), TypeError, "a TrainOutput: 'loss' must be a Tensor"),
    ],
)
def test_invalid_tensors_are_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_outputs_are_checked_and_completed_by_a_default():
    output = PredictOutput(tf.ones([1]))
    assert completed_outputs({}, {}) == {}
    assert list(completed_outputs({}, tf.ones([1]))) == ["serving_default"]
    assert completed_outputs({"own": output}, {}) == {"own": output, "serving_default": output}
    check_outputs({"a": output})
    with pytest.raises(TypeError, match=r"export_outputs\['a'\] must be an instance"):
        check_outputs({"a": tf.ones([1])})
