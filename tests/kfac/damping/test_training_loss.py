import pytest
import tensorflow as tf

import kfac
from kfac.damping.training_loss import PART_OF_LOSS, TrainingLoss

v1 = tf.compat.v1


def make(**kwargs):
    arguments = {
        "loss": None,
        "loss_fn": None,
        "train_batch": None,
        "prev_train_batch": None,
        "use_passed_loss": True,
        "layers": kfac.LayerCollection(),
    }
    return TrainingLoss(**{**arguments, **kwargs})


def test_parts_of_towers_add_up(graph, session):
    losses = make()
    losses.collect(tf.constant(1.5))
    losses.collect(tf.constant(2.0))
    assert session.run(losses.before_step(tf.float64)) == 3.5


def test_loss_that_is_set_wins(graph, session):
    losses = make(loss=tf.constant(1.0))
    losses.collect(tf.constant(5.0))
    assert session.run(losses.before_step(tf.float32)) == 1.0
    losses.set(tf.constant(2.0))
    assert session.run(losses.before_step(tf.float32)) == 2.0


def test_function_instead_of_the_passed_loss(graph, session):
    losses = make(loss_fn=lambda x: 2 * x, train_batch=tf.constant(3.0), use_passed_loss=False)
    losses.collect(tf.constant(5.0))
    assert session.run(losses.before_step(tf.float32)) == 6.0


def test_losses_of_towers_count_by_their_parts(graph, session):
    losses = make()
    for loss, weight in ((8.0, 0.75), (4.0, 0.25)):
        graph.add_to_collection(PART_OF_LOSS, lambda loss, weight=weight: weight * loss)
        losses.collect(tf.constant(loss))
    assert session.run(losses.before_step(tf.float32)) == 7.0


def test_function_of_either_batch(graph, session):
    batches = {"train_batch": tf.constant(3.0), "prev_train_batch": tf.constant(4.0)}
    losses = make(loss_fn=lambda x: 2 * x, **batches)
    found = [losses.on_current_batch(tf.float64), losses.on_previous_batch(tf.float64)]
    assert session.run(found) == [6.0, 8.0]


def test_mean_over_towers_in_their_scopes(graph, session):
    def loss_fn(batch):
        return batch * v1.get_variable("w")

    losses = make(loss_fn=loss_fn)
    for tower in range(2):
        with v1.variable_scope("model", reuse=tower > 0), v1.device(f"/cpu:{tower}"):
            v1.get_variable("w", initializer=10.0)
            losses.add_tower(tf.constant(1.0 + tower), None)
    found = losses.on_current_batch(tf.float32)
    devices = {op.device[-1] for op in graph.get_operations() if op.type == "Mul"}
    assert devices == {"0", "1"}
    session.run(v1.global_variables_initializer())
    assert session.run(found) == 15.0


@pytest.mark.parametrize("kwargs", [{"loss_fn": abs}, {"train_batch": 1.0}])
def test_without_the_passed_loss_there_must_be_a_batch(kwargs):
    with pytest.raises(ValueError, match=r"use_passed_loss=False, train_batch=.*Pass loss_fn"):
        make(use_passed_loss=False, **kwargs)


def test_loss_that_is_not_known(graph):
    with pytest.raises(ValueError, match=r"the loss is not known.*set_loss"):
        make().before_step(tf.float32)


def test_batch_that_is_not_known(graph):
    losses = make(loss_fn=abs, train_batch=tf.constant(1.0))
    with pytest.raises(ValueError, match=r"the loss of prev_train_batch.*prev_train_batch=None"):
        losses.on_previous_batch(tf.float32)
    losses.add_tower(None, tf.constant(1.0))
    with pytest.raises(ValueError, match=r"the loss of train_batch .*add_tower_batch"):
        losses.on_current_batch(tf.float32)
    with pytest.raises(ValueError, match="loss_fn=None"):
        make(train_batch=tf.constant(1.0)).on_current_batch(tf.float32)


def two_towers():
    """A collection with two towers, and their losses."""
    layers, losses = kfac.graph_layer_collection(), []
    for reuse in (False, True):
        logits = tf.zeros([4, 3])
        layers.register_categorical_predictive_distribution(logits, name="loss", reuse=reuse)
        losses.append(tf.reduce_sum(logits))
    return layers, losses


def test_loss_of_some_towers_only(graph, session):
    layers, parts = two_towers()
    losses = make(layers=layers)
    losses.collect(parts[1])
    with pytest.raises(ValueError, match=r"not given the loss of tower 0, of 2 .* in default"):
        losses.before_step(tf.float32)
    losses.set(parts[1])
    assert session.run(losses.before_step(tf.float32)) == 0.0


def test_batches_of_some_towers_only(graph):
    losses = make(loss_fn=abs, layers=two_towers()[0])
    losses.add_tower(tf.constant(1.0), None)
    with pytest.raises(ValueError, match=r"add_tower_batch was called 1 times, with 2 towers"):
        losses.on_current_batch(tf.float32)


def test_loss_of_another_collection(graph):
    _, parts = two_towers()
    losses = make(layers=kfac.LayerCollection(name="own"))
    losses.collect(tf.constant(1.0))
    losses.check()
    losses.collect(parts[0])
    with pytest.raises(ValueError, match=r"with layer collection own: .* another .*, default"):
        losses.check()
