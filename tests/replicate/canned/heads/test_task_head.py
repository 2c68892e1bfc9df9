import pytest
import tensorflow as tf

from replicate import BinaryClassHead, MultiClassHead, RegressionHead


def test_properties_are_those_that_were_given():
    head = MultiClassHead(4, loss_reduction="weighted_mean", name="kind")
    assert (head.name, head.logits_dimension, head.loss_reduction) == ("kind", 4, "weighted_mean")
    assert BinaryClassHead().name is None
    assert RegressionHead(3).logits_dimension == 3


def test_average_loss_divides_by_the_weights():
    head = RegressionHead(weight_column="w", loss_reduction="sum")
    assert float(head.average_loss([0, 0], [[1.0], [2.0]], {"w": [1, 3]})) == (1 + 12) / 4


def test_logits_are_checked():
    with pytest.raises(ValueError, match="Cannot use the logits in RegressionHead 'r'"):
        RegressionHead(2, name="r").predictions([[1.0]])


def test_metrics_of_another_head_are_refused():
    head, other = BinaryClassHead(), MultiClassHead(3)
    with pytest.raises(ValueError, match=r"of BinaryClassHead: \['precision'.*are missing among"):
        head.update_metrics(other.metrics(), {}, [[1.0]], [1])
    losses = [tf.constant(1.0)]
    with pytest.raises(ValueError, match=r"\['regularization_loss'\] are missing"):
        head.update_metrics(head.metrics(), {}, [[1.0]], [1], regularization_losses=losses)


def test_regularization_is_averaged_over_batches(evaluated):
    losses = [tf.constant(1.0), tf.constant(2.5)]
    batch = ([1.0], [[1.0]], {})
    found = evaluated(RegressionHead(), batch, batch, regularization_losses=losses)
    assert found["regularization_loss"] == 3.5
