"""Errors and exit codes: names, texts, and which code stands for which error."""

import signal

import pytest
import tensorflow as tf

import replicate
from replicate import errors, export
from replicate.estimator.calling import call_receiver_fn
from replicate.exit_codes import ExitCode

v1 = tf.compat.v1


def test_non_finite_error_is_caught_as_that_of_the_nan_hook():
    with pytest.raises(v1.train.NanLossDuringTrainingError, match=r"^the loss is nan$") as caught:
        raise errors.NonFiniteError("the loss is nan")
    assert isinstance(caught.value, ArithmeticError)


class Unnamed(replicate.Exporter):
    name = 3

    def export(self, *arguments):
        """Exports nothing."""


def receiver(**fields):
    given = {"features": tf.zeros([1]), "receiver_tensors": tf.zeros([1]), **fields}
    return export.ServingInputReceiver(**given)


def train(model_fn, **arguments):
    replicate.Estimator(model_fn, **arguments).train(lambda: tf.zeros([1]), steps=1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: replicate.Estimator(None),
        lambda: replicate.Estimator(lambda x, labels: None),
        lambda: replicate.Estimator(lambda features, size: None),
        lambda: replicate.Estimator(lambda features: None, config={}),
        lambda: replicate.Estimator(lambda features: None, warm_start_from=3),
        lambda: train(lambda features: None),
        lambda: call_receiver_fn(None),
        lambda: replicate.FinalExporter("a", None),
        lambda: replicate.EvalSpec(len, exporters=[Unnamed()]),
        lambda: replicate.RunConfig(session_config=3),
        lambda: replicate.RunConfig(device_fn=3),
        lambda: receiver(features={"x": 3}),
        lambda: receiver(receiver_tensors_alternatives=[1]),
        lambda: export.TensorServingInputReceiver({"x": tf.zeros([1])}, tf.zeros([1])),
        lambda: export.PredictOutput({"a": 3}),
        lambda: export.RegressionOutput(3),
        lambda: export.ClassificationOutput(scores=3),
        lambda: export.ClassificationOutput(classes=tf.zeros([1])),
    ],
)
def test_value_errors_of_tf_estimator_stay_value_errors(graph, call):
    with pytest.raises(ValueError, match=r"must|requires the arguments"):
        call()


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ExitCode.DONE, 0),
        (ExitCode.BUG, 1),
        (errors.ClusterConfigError.code, 2),
        (errors.CheckpointError.code, 2),
        (errors.NonFiniteError.code, 3),
        (ExitCode.LEFT_TO_DO, 4),
        (errors.ClusterError.code, 138),
        (errors.TrainingInterrupted(signal.SIGINT, 5, "").code, 130),
        (errors.TrainingInterrupted(signal.SIGTERM, 5, "").code, 143),
        (ExitCode.INTERRUPTED, 130),
        (ExitCode.TERMINATED, 143),
    ],
)
def test_exit_codes_keep_their_numbers(code, number):
    assert code == number
