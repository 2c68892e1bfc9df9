"""Strategies of tf.distribute, and the training that each of them asks for.

Programs of 2018 to 2020 pass a strategy object to `RunConfig(train_distribute=…)`. This module
reads such an object, through its public properties, and no other module looks into one.
`run_settings.py` calls it to refuse what is not supported; `estimator.py` builds the towers. A
strategy of several workers without parameter servers stands for `AllReduce`.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from replicate.all_reduce.settings import AllReduce

v1 = tf.compat.v1

_OF_ONE_PROCESS = (
    tf.distribute.MirroredStrategy,
    tf.distribute.OneDeviceStrategy,
    tf.distribute.experimental.CentralStorageStrategy,
    v1.distribute.MirroredStrategy,
    v1.distribute.OneDeviceStrategy,
    v1.distribute.experimental.CentralStorageStrategy,
    v1.distribute.experimental.ParameterServerStrategy,
)
"""Strategies that copy a model within each process: several processes share parameter servers."""

_OF_WORKERS = (
    tf.distribute.MultiWorkerMirroredStrategy,
    v1.distribute.experimental.MultiWorkerMirroredStrategy,
)
"""Strategies of equal workers without parameter servers."""


@dataclasses.dataclass(frozen=True)
class StrategyRequest:
    """Training that a strategy asks for.

    Attributes:
      devices: Device of each tower of this process, such as "/device:GPU:0". Each tower takes a
        batch of its own from the input.
    """

    devices: tuple[str, ...]


def strategy_request(setting: str, strategy: Any) -> StrategyRequest | None:
    """Returns the training that a strategy asks for; None for no strategy.

    Raises:
      ValueError: The strategy is of another kind.
    """
    if strategy is None or isinstance(strategy, AllReduce):
        return None
    if isinstance(strategy, (*_OF_ONE_PROCESS, *_OF_WORKERS)):
        return StrategyRequest(
            tuple(_in_process(each) for each in strategy.extended.worker_devices)
        )
    raise ValueError(
        f"RunConfig: {setting} must be a MirroredStrategy, OneDeviceStrategy, "
        "CentralStorageStrategy, ParameterServerStrategy or MultiWorkerMirroredStrategy of "
        f"tf.distribute, a replicate.AllReduce, or None; got {strategy!r}. For several machines, "
        "describe the cluster in TF_CONFIG, with parameter servers or for an AllReduce."
    )


def all_reduce_of(strategy: Any) -> AllReduce | None:
    """Returns the settings of the sums over workers that a strategy asks for; None for none."""
    if isinstance(strategy, AllReduce):
        return strategy
    return AllReduce() if isinstance(strategy, _OF_WORKERS) else None


def _in_process(device: str) -> str:
    """Returns the name of a device without job, replica and task."""
    spec = tf.DeviceSpec.from_string(device)
    return str(spec.replace(job=None, replica=None, task=None).to_string())
