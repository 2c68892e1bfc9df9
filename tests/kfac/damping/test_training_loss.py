"""The loss before and after a step, and the change that the quadratic model foretells."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.damping.interface import ModelChange
from kfac.damping.recomputed_loss import recomputed
from kfac.damping.training_loss import PART_OF_LOSS, TrainingLoss
from kfac.state import assign_all, value_if
from replicate.saved.checkpoint_names import optional_states

v1 = tf.compat.v1
X = np.random.RandomState(0).randn(12, 5).astype(np.float32)


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


def test_loss_before_the_step(graph, session):
    """Parts of towers add up; a loss that is set wins; so does a function that is asked for."""
    losses = make()
    losses.collect(tf.constant(1.5))
    losses.collect(tf.constant(2.0))
    assert session.run(losses.before_step(tf.float64)) == 3.5
    losses.set(tf.constant(2.0))
    assert session.run(losses.before_step(tf.float32)) == 2.0
    losses = make(loss_fn=lambda x: 2 * x, train_batch=tf.constant(3.0), use_passed_loss=False)
    losses.collect(tf.constant(5.0))
    assert session.run(losses.before_step(tf.float32)) == 6.0


def test_losses_of_towers_count_by_their_parts(graph, session):
    losses = make()
    for loss, weight in ((8.0, 0.75), (4.0, 0.25)):
        graph.add_to_collection(PART_OF_LOSS, lambda loss, weight=weight: weight * loss)
        losses.collect(tf.constant(loss))
    assert session.run(losses.before_step(tf.float32)) == 7.0


def test_mean_over_towers_in_their_scopes(graph, session):
    def loss_fn(batch):
        return batch * v1.get_variable("w")

    losses = make(loss_fn=loss_fn)
    for tower in range(2):
        with v1.variable_scope("model", reuse=tower > 0), v1.device(f"/cpu:{tower}"):
            v1.get_variable("w", initializer=10.0)
            losses.add_tower(tf.constant(1.0 + tower), tf.constant(3.0 + tower))
    found = [losses.on_current_batch(tf.float32), losses.on_previous_batch(tf.float32)]
    devices = {op.device[-1] for op in graph.get_operations() if op.type == "Mul"}
    assert devices == {"0", "1"}
    session.run(v1.global_variables_initializer())
    assert session.run(found) == [15.0, 35.0]


def test_loss_or_batch_that_is_not_known(graph):
    for given in ({"loss_fn": abs}, {"train_batch": 1.0}):
        with pytest.raises(ValueError, match=r"use_passed_loss=False, train_batch=.*Pass loss_fn"):
            make(use_passed_loss=False, **given)
    with pytest.raises(ValueError, match=r"the loss is not known.*set_loss"):
        make().before_step(tf.float32)
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


def test_loss_or_batch_of_some_towers_only(graph, session):
    layers, parts = two_towers()
    losses = make(loss_fn=abs, layers=layers)
    losses.add_tower(tf.constant(1.0), None)
    with pytest.raises(ValueError, match=r"add_tower_batch was called 1 times, with 2 towers"):
        losses.on_current_batch(tf.float32)
    losses = make(layers=layers)
    losses.collect(parts[1])
    with pytest.raises(ValueError, match=r"not given the loss of tower 0, of 2 .* in default"):
        losses.before_step(tf.float32)
    losses.set(parts[1])
    assert session.run(losses.before_step(tf.float32)) == 0.0


def test_loss_of_another_collection(graph):
    _, parts = two_towers()
    losses = make(layers=kfac.LayerCollection(name="own"))
    losses.collect(tf.constant(1.0))
    losses.check()
    losses.collect(parts[0])
    with pytest.raises(ValueError, match=r"with layer collection own: .* another .*, default"):
        losses.check()


def after_update(loss, variable, change):
    """Returns loss before, and after adding `change`: computed in a branch that waits for it."""
    with v1.control_dependencies([loss]):
        updated = v1.assign_add(variable, change)
    with v1.control_dependencies([updated]):
        condition = tf.identity(tf.constant(True))
        after = value_if(condition, lambda: recomputed([loss], [variable])[0], tf.constant(-1.0))
    return loss, after


def weight(shape, value=0.5):
    return v1.get_variable(
        "w", shape, initializer=tf.constant_initializer(value), use_resource=True
    )


def test_same_batch_with_the_new_weights(graph, evaluate):
    x = v1.placeholder(tf.float32, [None, 5])
    w = weight([5, 2])
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
    before, after = evaluate(after_update(loss, w, tf.ones([5, 2])), {x: X})
    assert before == pytest.approx(np.sum((X @ np.full([5, 2], 0.5)) ** 2), rel=1e-5)
    assert after == pytest.approx(np.sum((X @ np.full([5, 2], 1.5)) ** 2), rel=1e-5)


def test_input_is_read_once_and_dropout_drawn_once(graph):
    data = tf.data.Dataset.from_tensor_slices(X).batch(4, drop_remainder=False)
    iterator = v1.data.make_initializable_iterator(data)
    w = weight([5, 2])
    kept = tf.nn.dropout(tf.matmul(iterator.get_next(), w), rate=0.5)
    before, after = after_update(tf.reduce_sum(kept), w, tf.fill([5, 2], 0.5))
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), iterator.initializer])
        for _ in range(3):
            session.run(v1.assign(w, tf.fill([5, 2], 0.5)))
            first, second = session.run([before, after])
            assert second == pytest.approx(2 * first, rel=1e-5)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(before)


def test_branches_and_functions_of_the_model(graph, evaluate):
    @tf.function
    def square(x):
        return tf.square(x)

    w = weight([])
    doubled = tf.cond(tf.constant(1) > 0, lambda: 2 * w, lambda: w)
    assert evaluate(after_update(square(doubled), w, 1.0)) == (1.0, 9.0)


def test_loss_that_does_not_depend_on_the_variables(graph):
    w = weight([])
    loss = tf.constant(3.0)
    assert recomputed([loss], [w])[0] is loss


def test_draw_that_depends_on_variables_is_refused(graph):
    w = weight([3])
    noise = v1.random_uniform(tf.cast(w, tf.int32))
    with pytest.raises(ValueError, match=r"RandomUniform.*draws numbers.*Pass a function.*loss_fn"):
        recomputed([tf.reduce_sum(noise)], [w])


@pytest.mark.parametrize("behavior", ["v1"], indirect=True)
def test_loop_of_control_flow_v1_is_refused(behavior, graph):
    w = weight([])
    _, total = tf.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t + w), (0, 0.0))
    with pytest.raises(ValueError, match="belongs to a loop of control flow v1"):
        recomputed([total], [w])


def test_for_steps_that_are_judged(graph, session):
    change = ModelChange("float32")
    due = v1.placeholder(tf.bool, [])
    keep = assign_all(change.kept(due, tf.constant(-2.0)))
    session.run(change.variable.initializer)
    session.run(keep, {due: False})
    assert np.isnan(session.run(change.variable))
    session.run(keep, {due: True})
    assert session.run(change.variable) == -2.0


def test_checkpoints_may_lack_it(graph):
    change = ModelChange("float32")
    change.make_variables()
    (state,) = optional_states()
    assert state.variables == [change.variable]
