"""A training program whose workers evaluate together, each its share of the batches.

    python evaluator_less.py MODEL_DIR STEPS

Each process prints "evaluating STEP" when it begins to evaluate a checkpoint, and at its end
"results" with the last ones as JSON.
"""

import json

import numpy as np
import tensorflow as tf

import replicate

v1 = tf.compat.v1
ROWS, BATCH = 103, 10
TIMEOUT_SECS = 60.0


class Report(v1.train.SessionRunHook):
    """Prints the step of the checkpoint that is evaluated."""

    def after_create_session(self, session, coord):
        print(f"evaluating {session.run(v1.train.get_global_step())}", flush=True)


def rows():
    random = np.random.RandomState(0)
    features = random.randn(ROWS, 3).astype(np.float32)
    return features, (features.sum(axis=1) + random.randn(ROWS) > 0).astype(np.int64)


def model_fn(features, labels, mode):
    weights = v1.get_variable("weights", [3], initializer=v1.zeros_initializer())
    logits = tf.linalg.matvec(features, weights)
    loss = v1.losses.sigmoid_cross_entropy(labels, logits)
    chances = tf.sigmoid(logits)
    if mode == replicate.ModeKeys.EVAL:
        metrics = {
            "accuracy": v1.metrics.accuracy(labels, chances > 0.5),
            "auc": v1.metrics.auc(labels, chances),
            "mean": v1.metrics.mean(chances),
            "rmse": v1.metrics.root_mean_squared_error(tf.cast(labels, tf.float32), chances),
        }
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.5))
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def batches():
    return tf.data.Dataset.from_tensor_slices(rows()).batch(BATCH)


def make_estimator(folder):
    return replicate.Estimator(
        model_fn,
        folder,
        replicate.RunConfig(
            save_checkpoints_steps=10,
            session_creation_timeout_secs=TIMEOUT_SECS,
            progress="off",
            train_distribute=replicate.AllReduce(timeout_secs=TIMEOUT_SECS, evaluates=True),
        ),
    )


def main(folder, steps):
    results, _ = replicate.train_and_evaluate(
        make_estimator(folder),
        replicate.TrainSpec(
            lambda: replicate.worker_share(batches()).repeat(), max_steps=int(steps)
        ),
        replicate.EvalSpec(batches, steps=None, hooks=[Report()], throttle_secs=0),
    )
    print("results", json.dumps(results, default=float), flush=True)


if __name__ == "__main__":
    from as_task import run_as_task

    run_as_task(main)
