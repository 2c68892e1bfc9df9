"""tf.contrib.distribute: strategies with the arguments of TensorFlow 1.8 to 1.15.

They are strategies of today's `tf.distribute`, which `RunConfig(train_distribute=…)` takes. Towers
sum gradients in their own way, so objects that choose a way of reduction have no effect.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate.all_reduce.settings import AllReduce

v1 = tf.compat.v1


class DistributeConfig(NamedTuple):
    """Strategies of a `RunConfig(experimental_distribute=…)`, or None. remote_cluster is None."""

    train_distribute: Any = None
    eval_distribute: Any = None
    remote_cluster: Any = None


def MirroredStrategy(  # noqa: N802  # The name of a class.
    devices: Sequence[str] | None = None,
    num_gpus: int | None = None,
    num_gpus_per_worker: int | None = None,
    cross_device_ops: Any = None,
    auto_shard_dataset: bool = False,
    cross_tower_ops: Any = None,
    prefetch_on_device: Any = None,
) -> Any:
    """Returns a MirroredStrategy of tf.distribute.

    Args:
      devices: Device of each copy of the model; None: all GPUs or, without GPUs, the CPU.
      num_gpus: Number of GPUs in place of the devices; 0 for the CPU.
      num_gpus_per_worker: As num_gpus.
      cross_device_ops: Not used.
      auto_shard_dataset: Not used.
      cross_tower_ops: Not used.
      prefetch_on_device: Not used.

    Raises:
      ValueError: Devices and a number are given, or the number is below 0.
    """
    del cross_device_ops, auto_shard_dataset, cross_tower_ops, prefetch_on_device
    count = num_gpus if num_gpus_per_worker is None else num_gpus_per_worker
    if count is None:
        return v1.distribute.MirroredStrategy(devices)
    if devices is not None or count < 0:
        raise ValueError(
            f"tf.contrib.distribute.MirroredStrategy takes devices or num_gpus >= 0, got devices="
            f"{devices!r} and num_gpus={count!r}."
        )
    gpus = [f"/gpu:{index}" for index in range(count)]
    return v1.distribute.MirroredStrategy(gpus or ["/cpu:0"])


def list_devices() -> list[str]:
    """Returns the names of the devices of this process, such as "/device:GPU:0"."""
    return [device.name for device in tf.config.list_logical_devices()]


def ParameterServerStrategy(num_gpus_per_worker: int = 0) -> Any:  # noqa: N802  # As above.
    """Returns a strategy of the parameter servers of TF_CONFIG, on all GPUs of a worker."""
    del num_gpus_per_worker
    return v1.distribute.experimental.ParameterServerStrategy()


def CollectiveAllReduceStrategy(  # noqa: N802  # As above.
    num_gpus_per_worker: int = 0, *args: Any, **kwargs: Any
) -> AllReduce:
    """Returns the settings of training on the workers of TF_CONFIG without parameter servers.

    The arguments are not used: a worker trains on all of its GPUs.
    """
    del num_gpus_per_worker, args, kwargs
    return AllReduce()


def AllReduceCrossDeviceOps(  # noqa: N802  # As above.
    all_reduce_alg: str = "nccl", num_packs: int = 1, *args: Any, **kwargs: Any
) -> Any:
    """Returns an object that chooses a way of reduction, which has no effect on towers.

    Args:
      all_reduce_alg: Name of an algorithm.
      num_packs: Number of packs, ≥ 0.
      *args: Not used.
      **kwargs: Not used.
    """
    del args, kwargs
    if all_reduce_alg == "hierarchical_copy":
        return tf.distribute.HierarchicalCopyAllReduce(num_packs)
    return tf.distribute.NcclAllReduce(num_packs)
