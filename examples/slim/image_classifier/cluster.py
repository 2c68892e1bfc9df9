"""Cluster of the image classifier: TF_CONFIG, lists of hosts, or a running server.

Reads any of the three. `run_config` makes the settings of the runtime, `deployment` those of the
clones. `train` runs the role of a process. A single process is a cluster of one.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import model_deploy
import replicate
from examples.slim.datasets.dataset import ImageDataset
from replicate.estimator.cluster_config import ClusterConfig, parse_cluster_config

v1 = tf.compat.v1

WORKER, PS = "worker", "ps"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterFlags:
    """Place of this process in a cluster. The fields are flags of the same names.

    Attributes:
      master: Address of a server that was started elsewhere, such as grpc://host:2222, or "".
      task: Number of this process in its job; task 0 of the workers is the chief.
      worker_replicas: Processes that train.
      num_ps_tasks: Parameter servers.
      worker_hosts: Addresses of the workers, host:port, the chief first.
      ps_hosts: Addresses of the parameter servers.
      job_name: "worker" or "ps", of this process.
    """

    master: str
    task: int
    worker_replicas: int
    num_ps_tasks: int
    worker_hosts: list[str] | None
    ps_hosts: list[str] | None
    job_name: str


def run_config(place: ClusterFlags, **settings: Any) -> replicate.RunConfig:
    """Returns the settings of the runtime, with the cluster that the flags or TF_CONFIG describe.

    Raises:
      ValueError: There are several descriptions, or one is wrong or does not fit the counts.
    """
    given = {
        "--master": bool(place.master),
        "--worker_hosts and --ps_hosts": bool(place.worker_hosts or place.ps_hosts),
        "TF_CONFIG": bool(os.environ.get("TF_CONFIG")),
    }
    if sum(given.values()) > 1:
        several = " and ".join(name for name, is_given in given.items() if is_given)
        raise ValueError(f"The cluster is described by {several}; keep one of them.")
    if place.master:
        return _beside_a_server(place, settings)
    if place.worker_hosts or place.ps_hosts:
        settings["cluster"] = parse_cluster_config(_tf_config(place))
    config = replicate.RunConfig(**settings)
    if config.task_type in (replicate.TaskType.EVALUATOR, replicate.TaskType.MASTER):
        raise ValueError(
            f"TF_CONFIG says that this process is {config.task_type!r}, which the training program "
            "is not: the roles are 'chief', 'worker' and 'ps'. examples.slim.eval_image_classifier "
            "evaluates."
        )
    _check_counts(place, config)
    return config


def alone(**settings: Any) -> replicate.RunConfig:
    """Returns the settings of the runtime for a process on its own, whatever TF_CONFIG says."""
    return replicate.RunConfig(cluster=ClusterConfig(), **settings)


def deployment(
    config: replicate.RunConfig, num_clones: int, clone_on_cpu: bool
) -> model_deploy.DeploymentConfig:
    """Returns the devices of clones and variables.

    Raises:
      ValueError: Replicas have no parameter server, or there are GPUs, but fewer than clones.
    """
    gpus = len(model_deploy.local_devices("GPU"))
    is_here = config.cluster.target is None
    if is_here and not clone_on_cpu and 0 < gpus < num_clones:
        raise ValueError(
            f"--num_clones={num_clones}, but this process has {gpus} GPUs. Set a lower number, or "
            "--clone_on_cpu."
        )
    return model_deploy.DeploymentConfig(
        num_clones=num_clones,
        clone_on_cpu=clone_on_cpu or (is_here and not gpus),
        replica_id=config.global_id_in_cluster or 0,
        num_replicas=config.num_worker_replicas,
        num_ps_tasks=config.num_ps_replicas,
        worker_job_name=config.task_type if is_here else WORKER,
        ps_job_name=PS,
    )


def describe(config: replicate.RunConfig) -> str:
    """Returns the role of this process in the cluster, in words."""
    if not config.cluster.jobs:
        return "alone"
    return (
        f"{config.task_type} {config.task_id}; the cluster has {config.num_worker_replicas} that "
        f"train and {config.num_ps_replicas} parameter servers"
    )


def describe_devices(deployment: model_deploy.DeploymentConfig) -> str:
    """Returns the devices of the clones and variables of a process, in words."""
    count = deployment.num_clones
    clones = " ".join(deployment.clone_device(index) for index in range(count))
    servers = f"{deployment.ps_device or ''}{model_deploy.canonical_device('cpu:0')}"
    return f"{count} {'clone' if count == 1 else 'clones'}: {clones}   variables on {servers}"


def check_dataset(config: replicate.RunConfig, dataset: ImageDataset) -> None:
    """Raises ValueError if the server that runs the session cannot read a dataset."""
    if config.cluster.target is not None and dataset.runs_python:
        raise ValueError(
            f"--master={config.cluster.target} cannot read {dataset.name}, which is in the memory "
            "of this process. Use TFRecord files, or let this program start the servers: "
            "--worker_hosts and --ps_hosts, or TF_CONFIG."
        )


def serve(config: replicate.RunConfig) -> None:
    """Serves variables until the other tasks are done, as a parameter server."""
    estimator = replicate.Estimator(_no_model, config=config)
    train(estimator, _no_model, None)


def train(
    estimator: replicate.Estimator,
    input_fn: Callable[[], Any],
    max_steps: int | None,
    hooks: Sequence[Any] = (),
) -> None:
    """Runs the role of this process: serves variables, or trains up to a step."""
    config = estimator.config
    if config.cluster.jobs and config.cluster.target is None:
        replicate.train_and_evaluate(
            estimator,
            replicate.TrainSpec(input_fn, max_steps=max_steps, hooks=hooks),
            replicate.EvalSpec(input_fn),  # Never used: none of our roles evaluates.
        )
    else:
        estimator.train(input_fn, hooks, max_steps=max_steps)


def _no_model(features: Any = None) -> None:
    """Placeholder for a model and an input in a task that has none."""
    del features


def _beside_a_server(place: ClusterFlags, settings: dict[str, Any]) -> replicate.RunConfig:
    """Returns a cluster of running servers. A session needs only the address of its server."""
    if place.task >= place.worker_replicas:
        raise ValueError(
            f"--task={place.task}, but there are {place.worker_replicas} workers "
            "(--worker_replicas), numbered from 0."
        )
    own = f"/job:{WORKER}/task:{place.task}"
    jobs = {"chief": ("",), WORKER: ("",) * (place.worker_replicas - 1)}
    options, device_fn = v1.ConfigProto(allow_soft_placement=True), None
    if place.num_ps_tasks:
        jobs[PS] = ("",) * place.num_ps_tasks
        options.device_filters.extend([f"/job:{PS}", own])
        device_fn = v1.train.replica_device_setter(place.num_ps_tasks, worker_device=own)
    is_chief = place.task == 0
    return replicate.RunConfig(
        cluster=ClusterConfig(
            jobs={job: tasks for job, tasks in jobs.items() if tasks},
            task_type="chief" if is_chief else WORKER,
            task_id=0 if is_chief else place.task - 1,
            target=place.master,
        ),
        session_config=options,
        device_fn=device_fn,
        **settings,
    )


def _tf_config(place: ClusterFlags) -> str:
    """Returns the TF_CONFIG that is equivalent to the lists of hosts."""
    workers, servers = place.worker_hosts or [], place.ps_hosts or []
    tasks = {WORKER: workers, PS: servers}[place.job_name]
    if not workers or (len(workers) > 1 and not servers):
        raise ValueError(
            "--worker_hosts and --ps_hosts must name the workers and, with several of them, the "
            f"parameter servers; got {','.join(workers) or 'no workers'} and "
            f"{','.join(servers) or 'no parameter servers'}."
        )
    if place.task >= len(tasks):
        raise ValueError(
            f"--task={place.task}, but --{place.job_name}_hosts has {len(tasks)} addresses, "
            "numbered from 0."
        )
    chief, *others = workers
    jobs = {"chief": [chief], WORKER: others, PS: servers}
    task = {"type": place.job_name, "index": place.task}
    if place.job_name == WORKER:
        is_chief = place.task == 0
        task = {
            "type": "chief" if is_chief else WORKER,
            "index": 0 if is_chief else place.task - 1,
        }
    cluster = {job: addresses for job, addresses in jobs.items() if addresses}
    return json.dumps({"cluster": cluster, "task": task})


def _check_counts(place: ClusterFlags, config: replicate.RunConfig) -> None:
    """Refuses numbers of tasks that the environment does not provide."""
    for flag, default, wanted, found in (
        ("worker_replicas", 1, place.worker_replicas, config.num_worker_replicas),
        ("num_ps_tasks", 0, place.num_ps_tasks, config.num_ps_replicas),
    ):
        if wanted not in (default, found):
            raise ValueError(
                f"--{flag}={wanted}, but the cluster of this process has {found}. Describe it by "
                "TF_CONFIG, by --worker_hosts and --ps_hosts, or by --master."
            )
