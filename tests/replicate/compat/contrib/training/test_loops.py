"""Training and evaluation loops of tf.contrib.training and slim.learning."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import slim, training

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")


def make_train_op(package=training, **arguments):
    """Makes a training operation of one weight vector, whose gradient is (3, 4) at first."""
    w = v1.get_variable("w", initializer=[3.0, 4.0])
    loss = tf.reduce_sum(w**2) / 2
    return w, package.create_train_op(loss, v1.train.GradientDescentOptimizer(0.5), **arguments)


@pytest.mark.parametrize(
    ("package", "arguments", "step"),
    [
        (training, {"transform_grads_fn": training.clip_gradient_norms_fn(1.0)}, [0.3, 0.4]),
        (slim.learning, {"gradient_multipliers": {"w": 0.5}}, [0.75, 1]),
        (slim.learning, {"clip_gradient_norm": 1.0, "summarize_gradients": True}, [0.3, 0.4]),
        (slim.learning, {"global_step": None}, [1.5, 2]),
    ],
)
def test_train_op_clips_multiplies_and_gives_the_loss(package, arguments, step):
    counted = v1.get_variable("counted", initializer=0.0, trainable=False)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, counted.assign_add(1.0))
    w, train = make_train_op(package, **arguments)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(train) == 12.5
        np.testing.assert_allclose(session.run(w), np.array([3, 4]) - step, rtol=1e-5)
        assert session.run(counted) == 1
        if "global_step" not in arguments:
            assert session.run(v1.train.get_global_step()) == 1
    tags = [each.op.name for each in v1.get_collection(v1.GraphKeys.SUMMARIES)]
    assert len(tags) == (2 if "summarize_gradients" in arguments else 0)


def test_loss_that_is_not_finite_is_an_error(evaluate):
    w = v1.get_variable("w", initializer=[1.0])
    train = training.create_train_op(w[0] / 0.0, v1.train.GradientDescentOptimizer(0.5))
    with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor is inf or nan"):
        evaluate(train)


def test_gradients_are_changed_one_by_one(evaluate):
    w, u = v1.get_variable("w", initializer=[1.0]), v1.get_variable("u", initializer=[[1.0]])
    rows = tf.IndexedSlices(tf.constant([[3.0], [4.0]]), tf.constant([0, 1]), tf.constant([2, 1]))
    gradients = [(tf.constant([5.0]), w), (rows, u), (None, u)]
    clipped = slim.learning.clip_gradient_norms(gradients, 1.0)
    scaled = slim.learning.multiply_gradients(gradients[:2], {w: 2.0, "u": 3.0})
    values = evaluate([clipped[0][0], clipped[1][0].values, scaled[0][0], scaled[1][0].values])
    np.testing.assert_allclose(
        np.concatenate(values, axis=None), [1, 0.6, 0.8, 10, 9, 12], rtol=1e-5
    )
    assert clipped[2][0] is None
    with pytest.raises(ValueError, match="must be a list"):
        slim.learning.multiply_gradients({}, {w: 1.0})


def test_train_runs_hooks_until_the_last_step(tmp_path):
    _, train = make_train_op()
    loss = training.train(
        train, str(tmp_path), hooks=[v1.train.StopAtStepHook(3)], save_checkpoint_secs=600
    )
    assert loss == pytest.approx(12.5 / 16)
    path = v1.train.latest_checkpoint(str(tmp_path))
    assert path.endswith("-3")
    assert list(training.checkpoints_iterator(str(tmp_path), timeout=0)) == [path]
    with pytest.raises(ValueError, match="train_op cannot be None"):
        slim.learning.train(None, str(tmp_path))


SLIM = """
import tensorflow as tf
slim = tf.contrib.slim
tf.logging.set_verbosity(tf.logging.INFO)

rows = tf.train.batch([tf.constant([1., 1.])], 4, num_threads=1)
w = slim.variable('w', initializer=[3., 4.])
loss = tf.reduce_mean(tf.reduce_sum(w ** 2 * rows, 1)) / 2
train_op = slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(.5))
print(slim.learning.train(train_op, 'run', number_of_steps=4, log_every_n_steps=2))

with tf.Graph().as_default():
    slim.get_or_create_global_step()
    value, update = slim.metrics.streaming_mean(slim.variable('w', [2]))
    arguments = dict(num_evals=2, eval_op=update, final_op=value,
                     variables_to_restore=slim.get_variables_to_restore())
    path = tf.train.latest_checkpoint('run')
    print(slim.evaluation.evaluate_once('', path, 'eval', **arguments))
    print(slim.evaluation.evaluation_loop(
        '', 'run', 'eval', eval_interval_secs=0, max_number_of_evaluations=1, **arguments))
"""


def test_slim_trains_from_queues_and_evaluates_checkpoints(run_tensorflow1, tmp_path):
    (tmp_path / "program.py").write_text(SLIM)
    ended = run_tensorflow1(tmp_path, "program.py")
    assert [float(line) for line in ended.out.splitlines()] == [12.5 / 64, 3.5 / 16, 3.5 / 16]
    assert "global step 4: loss = 0.19" in ended.err
