import pytest
import tensorflow as tf

from replicate.export.receivers import (
    ServingInputReceiver,
    SupervisedInputReceiver,
    TensorServingInputReceiver,
    UnsupervisedInputReceiver,
)

pytestmark = pytest.mark.usefixtures("graph")


def test_serving_receiver_names_single_tensors():
    feature, request = tf.ones([1]), tf.constant(["a"])
    receiver = ServingInputReceiver(feature, request)
    assert receiver.features == {"feature": feature}
    assert receiver.receiver_tensors == {"input": request}
    assert receiver.receiver_tensors_alternatives is None


def test_serving_receiver_keeps_dicts():
    a, b = tf.ones([1]), tf.sparse.from_dense([[1]])
    receiver = ServingInputReceiver({"a": a, 7: b}, {"a": a, "b": b}, {"raw": a, "other": {"x": b}})
    assert receiver.features == {"a": a, 7: b}
    assert receiver.receiver_tensors == {"a": a, "b": b}
    assert receiver.receiver_tensors_alternatives == {"raw": {"input": a}, "other": {"x": b}}


def test_tensor_receiver_passes_the_tensor_on():
    feature = tf.ones([1])
    receiver = TensorServingInputReceiver(feature, feature, {"raw": feature})
    assert receiver.features is feature
    assert receiver.receiver_tensors == {"input": feature}
    assert receiver.receiver_tensors_alternatives == {"raw": {"input": feature}}


def test_training_receivers_pass_features_and_labels_on():
    a, b = tf.ones([1]), tf.zeros([1])
    supervised = SupervisedInputReceiver(a, {"b": b, 0: a}, {"a": a, "b": b})
    assert supervised.features is a
    assert supervised.labels == {"b": b, 0: a}
    assert supervised.receiver_tensors == {"a": a, "b": b}
    unsupervised = UnsupervisedInputReceiver({"a": a}, a)
    assert unsupervised.features == {"a": a}
    assert unsupervised.receiver_tensors == {"input": a}


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "text"),
    [
        (ServingInputReceiver, (None, 1), ValueError, "features are None"),
        (ServingInputReceiver, ("tensor", {}), ValueError, r"receiver_tensors are \{\}"),
        (ServingInputReceiver, ("tensor", [1]), TypeError, "'input' in receiver_tensors must be"),
        (ServingInputReceiver, ("tensor", "tensor", "a"), TypeError, "must be a dict of name to"),
        (
            ServingInputReceiver,
            ("tensor", "tensor", {"raw": 3}),
            TypeError,
            r"'input' in receiver_tensors_alternatives\['raw'\] must be",
        ),
        (ServingInputReceiver, ("tensor", {2: "tensor"}), ValueError, "must be strings, got 2"),
        (ServingInputReceiver, ({(): 1}, "tensor"), ValueError, r"strings or integers, got \(\)"),
        (TensorServingInputReceiver, ({"a": 1}, 1), TypeError, r"got a dict of \['a'\]"),
        (TensorServingInputReceiver, (3, 1), TypeError, "'feature' in features must be a Tensor"),
        (SupervisedInputReceiver, ("tensor", None, 1), ValueError, "labels are None"),
        (UnsupervisedInputReceiver, (5, "tensor"), TypeError, "'feature' in features .* got 5"),
    ],
)
def test_invalid_receiver_arguments_are_refused(kind, arguments, error, text):
    def made(value):
        if isinstance(value, dict):
            return {name: made(each) for name, each in value.items()}
        return tf.ones([1]) if value == "tensor" else value

    with pytest.raises(error, match=text):
        kind(*map(made, arguments))
