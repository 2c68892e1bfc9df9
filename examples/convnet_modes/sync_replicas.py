"""`examples.convnet --mode=distributed_sync_replicas`: one step for all workers of a cluster.

The model_fn of `examples.convnet_model` with an optimizer that waits for all workers. With K-FAC
the workers also share the work on the curvature: `--op_strategy` selects the `kfac.WorkerRole` of
each worker. The Estimator handles servers, sessions and the end of training.
"""

from typing import Any

import tensorflow as tf

import kfac
import replicate
from examples import cli, convnet_model, mnist, training
from examples.cli import RunSettings
from examples.training import Params

v1 = tf.compat.v1


def run(data: mnist.Dataset, settings: RunSettings, params: Params, title: str) -> None:
    """Trains and evaluates, in the role that TF_CONFIG gives to this process."""
    with cli.bad_input():
        _check_cluster(replicate.RunConfig(), params)
    training.run(model_fn, data, settings, params, title)


def model_fn(
    features: Any, labels: Any, mode: str, params: Params, config: replicate.RunConfig
) -> Any:
    """Builds one tower of one worker, with the arguments of `convnet_model.model_fn`.

    For kfac params also has "op_strategy". The config knows the cluster and which of its workers
    this is.
    """
    if mode != replicate.ModeKeys.TRAIN:
        return convnet_model.model_fn(features, labels, mode, params)
    model = convnet_model.build_model(features)
    loss = convnet_model.mean_loss(model, labels)
    if params["optimizer"] == "kfac":
        convnet_model.register(kfac.graph_layer_collection(), model, params)
    make_optimizer = _make_kfac if params["optimizer"] == "kfac" else _make_synchronous
    optimizer = replicate.TowerOptimizer(lambda: make_optimizer(params, config))
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    hook = optimizer.wrapped.make_session_run_hook(config.is_chief)
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])


def make_kfac(
    worker: kfac.WorkerRole,
    params: Params,
    layers: kfac.LayerCollection | None = None,
    invert_every: int = convnet_model.INVERT_EVERY,
) -> kfac.ClusterKfacOpt:
    """Makes the K-FAC optimizer of one worker, and prints what it does there."""
    arguments = convnet_model.kfac_arguments(params, layers)
    optimizer = kfac.ClusterKfacOpt(worker, invert_every=invert_every, **arguments)
    cli.show("K-FAC", f"{optimizer.worker.strategy}; this worker: {optimizer.worker.name}")
    return optimizer


def _make_kfac(params: Params, config: replicate.RunConfig) -> kfac.ClusterKfacOpt:
    workers, index = config.num_worker_replicas, config.global_id_in_cluster
    return make_kfac(kfac.WorkerRole(params["op_strategy"], workers, index), params)


def _make_synchronous(params: Params, config: replicate.RunConfig) -> Any:
    workers = config.num_worker_replicas
    return v1.train.SyncReplicasOptimizer(
        convnet_model.make_optimizer(params),
        replicas_to_aggregate=workers,
        total_num_replicas=workers,
    )


def _check_cluster(config: replicate.RunConfig, params: Params) -> None:
    """Raises ValueError if there is no cluster, or if it does not fit the strategy."""
    if not config.cluster.jobs:
        raise ValueError(
            "--mode=distributed_sync_replicas needs a cluster: set the environment variable "
            "TF_CONFIG, or take --mode=estimator"
        )
    if config.num_worker_replicas and "op_strategy" in params:
        kfac.WorkerRole(params["op_strategy"], num_workers=config.num_worker_replicas, task_index=0)
