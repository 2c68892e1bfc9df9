"""Seed and global step of graphs, and options of sessions: devices, and tasks to connect to."""

from typing import Any

import tensorflow as tf

from model_deploy.devices import local_devices
from replicate.estimator.run_config import RunConfig
from replicate.estimator.run_settings import device_filters, plain_session_config
from replicate.roles import CHIEFS

v1 = tf.compat.v1


def complete_config(session_config: v1.ConfigProto | None) -> Any:
    """Returns a copy of the options that has the number of logical CPU devices of the process.

    Without options they are `plain_session_config`. Without the number, TensorFlow gives a session
    one CPU device. It comes from the settings of TensorFlow, so that no GPU is initialised. Logical
    GPUs are not copied: options of a session split GPUs by
    `gpu_options.experimental.virtual_devices`.
    """
    completed = plain_session_config()
    if session_config is not None:
        completed.CopyFrom(session_config)
    if "CPU" not in completed.device_count:
        completed.device_count["CPU"] = max(1, len(local_devices("CPU")))
    return completed


def session_options(config: RunConfig) -> Any:
    """Returns the session options of a training run; in a cluster, with its device filters.

    Workers without parameter servers share no variables. Each call of theirs has its own, which go
    with its session: the server of a worker serves all calls of its process, and would hand the
    variables of one call to a model of the next that gives them the same names.
    """
    options = complete_config(config.session_config)
    in_cluster = config.cluster.target is None and config.cluster_spec.jobs
    if in_cluster and config.master and not options.device_filters:
        options.device_filters.extend(device_filters(config.cluster))
    if config.all_reduce is not None:
        lead_collectives(options, config)
        options.isolate_session_state = True
    return options


def lead_collectives(options: v1.ConfigProto, config: RunConfig) -> None:
    """Names the task that brings the workers of a cluster together: the chief."""
    job = next(job for job in CHIEFS if job in config.cluster.jobs)
    options.experimental.collective_group_leader = f"/job:{job}/replica:0/task:0"
    if config.all_reduce is not None and config.all_reduce.communication == "nccl":
        options.experimental.collective_nccl = True


def restricted_options(config: RunConfig, *devices: str) -> Any:
    """Returns session options that connect only to the processes of some devices."""
    options = v1.ConfigProto()
    if config.session_config is not None:
        options.CopyFrom(config.session_config)
    del options.device_filters[:]
    options.device_filters.extend(devices)
    return options


_SEEDS_OF_WORKERS = 1_000_003
"""Difference of the seeds of workers that sum their gradients; all get the chief's variables."""


def begin_graph(config: RunConfig) -> None:
    """Sets the seed of the default graph, then makes its global step on the CPU.

    On a GPU, TensorFlow's choice, each reading of the global step would be a copy.
    """
    seed = config.tf_random_seed
    if seed is not None and config.all_reduce is not None:  # Workers shuffle and drop by their own.
        seed += _SEEDS_OF_WORKERS * (config.global_id_in_cluster or 0)
    v1.set_random_seed(seed)
    with v1.device("/device:CPU:0"):
        v1.train.create_global_step()
