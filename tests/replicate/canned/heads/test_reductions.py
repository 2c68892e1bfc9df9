import numpy as np
import pytest
import tensorflow as tf

from model_deploy import device_plan
from replicate.canned.heads.reductions import (
    SUM_OVER_BATCH_SIZE,
    call_loss_fn,
    check_loss_fn,
    old_reduction,
    reduced_loss,
    total_regularization,
)
from replicate.tower.build import TowerSettings
from replicate.tower.scopes import tower_scopes

v1 = tf.compat.v1
Old = v1.losses.Reduction

LOSSES = np.array([[1.0, 5.0], [4.0, 2.0], [9.0, 3.0]], np.float32)
WEIGHTS = np.array([[1.0], [0.0], [3.0]], np.float32)
TOTAL = 6 + 36.0


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("sum", TOTAL),
        (Old.SUM, TOTAL),
        (SUM_OVER_BATCH_SIZE, TOTAL / 6),
        ("auto", TOTAL / 6),
        (tf.losses.Reduction.SUM_OVER_BATCH_SIZE, TOTAL / 6),
        (Old.SUM_OVER_BATCH_SIZE, TOTAL / 6),
        (Old.MEAN, TOTAL / 8),
        (Old.SUM_BY_NONZERO_WEIGHTS, TOTAL / 4),
    ],
)
def test_reductions_of_both_generations(reduction, expected):
    loss = reduced_loss(tf.constant(LOSSES), tf.constant(WEIGHTS), reduction)
    assert float(loss) == pytest.approx(expected)


@pytest.mark.parametrize("reduction", [Old.MEAN, Old.SUM_BY_NONZERO_WEIGHTS])
def test_loss_of_zero_weights_is_zero(reduction):
    assert float(reduced_loss(tf.constant(LOSSES), tf.zeros([3, 1]), reduction)) == 0


@pytest.mark.parametrize("reduction", ["none", "median", None])
def test_unusable_reduction_is_refused(reduction):
    with pytest.raises(ValueError, match=rf"loss_reduction is {reduction!r}\. Accepted are \['sum"):
        old_reduction(reduction)


def test_loss_fn_must_name_labels_and_logits():
    check_loss_fn(lambda labels, logits, features, loss_reduction: 0, "Head")
    with pytest.raises(TypeError, match="make Head: loss_fn must be a function"):
        check_loss_fn("squared", "Head")
    with pytest.raises(
        ValueError, match="no parameter 'logits', its parameters are \\['labels'\\]"
    ):
        check_loss_fn(lambda labels: 0, "Head")
    with pytest.raises(ValueError, match=r"has the parameters \['alpha'\], but gets only"):
        check_loss_fn(lambda labels, logits, alpha: 0, "Head")


def test_loss_fn_gets_what_it_names():
    seen = {}

    def loss_fn(labels, logits, features, loss_reduction):
        seen.update(features=features, loss_reduction=loss_reduction)
        return tf.cast(labels, tf.float64) - tf.cast(logits, tf.float64)

    logits = tf.constant([[1.0], [2.0]])
    losses = call_loss_fn(loss_fn, tf.constant([[5], [5]]), logits, {"x": 1}, "sum", 1, "Head")
    assert losses.dtype == tf.float32
    assert losses.numpy().tolist() == [[4.0], [3.0]]
    assert seen == {"features": {"x": 1}, "loss_reduction": "sum"}


def reduced(labels, logits):
    return tf.reduce_mean(logits - labels)


def test_loss_fn_that_reduces_is_refused_eagerly():
    with pytest.raises(
        ValueError,
        match=r"loss_fn of Head must .*loss_shape: \[\], logits_shape: \[2 1\]",
    ):
        call_loss_fn(reduced, tf.zeros([2, 1]), tf.ones([2, 1]), None, "sum", 1, "Head")


def test_loss_fn_that_reduces_fails_in_a_graph(graph):
    losses = call_loss_fn(reduced, tf.zeros([2, 1]), tf.ones([2, 1]), None, "sum", 1, "Head")
    with v1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="loss_fn of"):
        session.run(losses)


def test_regularization_is_added_once_to_losses_that_are_summed(graph):
    plan = device_plan(["/cpu:0", "/cpu:1"])
    for averages_loss, expected in ((True, [3.5, 3.5]), (False, [3.5, 0])):
        totals = []
        with tower_scopes(TowerSettings(plan, averages_loss)) as scopes:
            for index in range(2):
                with scopes.tower(index, 0.5):
                    totals.append(total_regularization([tf.constant(1.0), tf.constant(2.5)]))
        with v1.Session() as session:
            assert session.run(totals) == expected
