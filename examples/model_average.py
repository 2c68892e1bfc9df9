"""Trains a multi-layer perceptron on images of digits, by averaging the weights of workers.

    python -m examples.model_average                         one worker on its own
    python -m examples.model_average --optimizer=momentum --interval_steps=20

Each worker trains its own weights. Every --interval_steps steps all workers take the mean of their
weights. --train_steps, --eval_every_steps and --save_every_steps count averagings. If TF_CONFIG
names a cluster with parameter servers, this process takes its role there. A worker that is
restarted continues from the last average.

The model_fn takes three steps for this: it builds the training model under a custom getter, wraps
the optimizer, and adds the optimizer's hook to the training hooks. Evaluation and prediction build
the ordinary model, because checkpoints hold only the averages.

Exit codes: 0 done, 1 bug, 2 flags, TF_CONFIG or files that cannot be used, 3 diverged, 130 or 143
stopped after saving, 138 another process of the cluster cannot be reached.
"""

from __future__ import annotations

from typing import Any

from absl import flags

import replicate
from examples import cli, mlp, mnist
from examples.lazy_module import LazyModule

# Imported when first used, so that --help and mistakes are answered at once.
tf = LazyModule("tensorflow")
v1 = LazyModule("tensorflow.compat.v1")
kfac = LazyModule("kfac")

FLAGS = flags.FLAGS
Tensor = Any
LEARNING_RATES = {"kfac": 0.03, "momentum": 0.1}


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
        model = mlp.build_model(features)
    logits = model[-1].outputs
    classes = tf.argmax(logits, axis=1, output_type=tf.int32)
    if mode == replicate.ModeKeys.PREDICT:
        return replicate.EstimatorSpec(mode, predictions={"class": classes})

    loss = mlp.mean_loss(logits, labels)
    if not training:
        accuracy = v1.metrics.accuracy(labels, classes)
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    if params["optimizer"] == "kfac":
        mlp.register(kfac.graph_layer_collection(), model)
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


def define_flags() -> None:
    """Defines the flags of the program."""
    cli.define_run_flags(
        model_dir="runs/model_average", batch_size=64, train_steps=30, eval_every_steps=10
    )
    flags.DEFINE_integer(
        "interval_steps", 10, "Local steps from one averaging to the next.", 1, 2**31 - 1
    )
    flags.DEFINE_enum("optimizer", "kfac", list(LEARNING_RATES), "What makes the local steps.")
    cli.define_learning_rate(LEARNING_RATES)
    cli.define_momentum(0.9, "Of the optimizer.")
    cli.define_positive("damping", 0.03, "Of kfac.")
    cli.define_positive(
        "patience_secs", 300.0, "Seconds that an averaging waits for a worker that is lost."
    )


def main() -> None:
    """Trains and evaluates, as the flags say."""
    settings = cli.read_run_flags()
    names = ("optimizer", "interval_steps", "patience_secs", "momentum", "damping")
    params = {name: FLAGS[name].value for name in names}
    params["learning_rate"] = FLAGS.learning_rate or LEARNING_RATES[FLAGS.optimizer]
    with cli.bad_input():
        cli.refuse_unused_flags(
            cli.flags_without_effect(
                ["damping"], needs="--optimizer=kfac", met=FLAGS.optimizer == "kfac"
            )
        )
        data = mnist.load(settings.data_dir)
        cli.claim_model_dir(settings.model_dir, f"an averaged MLP on {data.size}")

    cli.import_tensorflow()
    from examples import training  # noqa: PLC0415

    title = f"MLP on {data.name}, averaged weights, {FLAGS.optimizer}"
    training.run(model_fn, data, settings, params, title)


if __name__ == "__main__":
    define_flags()
    cli.run(main)
