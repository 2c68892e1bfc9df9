"""The model_fn of `examples/model_average.py`: a perceptron with weights averaged over workers.

Three things make it one: while it is trained, the model is built under a custom getter; the
optimizer is wrapped; and its hook is among the training hooks. Evaluation and prediction build the
ordinary model, since checkpoints hold nothing but the averages.
"""

from typing import Any

import tensorflow as tf

import kfac
import replicate
from examples import mlp_model

v1 = tf.compat.v1
Tensor = Any


def model_fn(features: Tensor, labels: Tensor, mode: str, params: Any, config: Any) -> Any:
    """Builds one tower of one worker.

    Args:
      features: This tower's images, [batch, height, width, 1].
      labels: Their digits, [batch], or None in PREDICT mode.
      mode: One of replicate.ModeKeys.
      params: Dict with "optimizer" ("kfac" or "momentum"), "learning_rate", "momentum", "damping",
        "interval_steps" and "patience_secs".
      config: The replicate.RunConfig, which knows the cluster.

    Returns:
      A replicate.EstimatorSpec.
    """
    training = mode == replicate.ModeKeys.TRAIN
    getter = replicate.ModelAverageCustomGetter.of(config)
    with v1.variable_scope("", custom_getter=getter if training else None):
        model = mlp_model.build_model(features)
    logits = model[-1].outputs
    classes = tf.argmax(logits, axis=1, output_type=tf.int32)
    if mode == replicate.ModeKeys.PREDICT:
        return replicate.EstimatorSpec(mode, predictions={"class": classes})

    loss = mlp_model.mean_loss(logits, labels)
    if not training:
        accuracy = v1.metrics.accuracy(labels, classes)
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    if params["optimizer"] == "kfac":
        mlp_model.register(kfac.graph_layer_collection(), model)
    optimizer = replicate.TowerOptimizer(lambda: make_optimizer(params, config, getter))
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    hook = optimizer.wrapped.make_session_run_hook()
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])


def make_optimizer(params: Any, config: Any, getter: Any) -> replicate.ModelAverageOptimizer:
    """Makes the optimizer that `params` describe; see `model_fn` for its keys."""
    if params["optimizer"] == "momentum":
        local = v1.train.MomentumOptimizer(params["learning_rate"], params["momentum"])
    else:
        local = kfac.PeriodicInvCovUpdateKfacOpt(
            invert_every=5,
            learning_rate=params["learning_rate"],
            momentum=params["momentum"],
            damping=params["damping"],
            norm_constraint=0.001,
            layer_collection=kfac.graph_layer_collection(),
        )
    return replicate.ModelAverageOptimizer(
        local,
        num_worker=config.num_worker_replicas,
        is_chief=config.is_chief,
        ma_custom_getter=getter,
        interval_steps=params["interval_steps"],
        patience_secs=params["patience_secs"],
    )
