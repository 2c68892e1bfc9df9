"""Devices: which ones this process has, and which one each operation goes to.

Owns the names of devices, the plan that says where towers compute and where variables live, and
the device function that carries the plan out. Does not build any model. `replicate` asks for a
plan when a `model_fn` is wrapped; clones of `model_deploy` follow the same device function.

Looking devices up here never makes a GPU context, so no GPU memory is taken by asking.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from model_deploy._types import Device, Operation

v1 = tf.compat.v1

CPU = "/device:CPU:0"

VARIABLE_OPS = frozenset(
    {
        "AutoReloadVariable",
        "HashTableV2",
        "MutableDenseHashTableV2",
        "MutableHashTableOfTensorsV2",
        "MutableHashTableV2",
        "VarHandleOp",
        "Variable",
        "VariableV2",
    }
)
"""Types of the operations that hold state: reference and resource variables, lookup tables."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevicePlan:
    """Where each part of a replicated model goes.

    Attributes:
      towers: The device of each tower, in order. A device may appear several times.
      parameters: The devices that hold variables, taken in turn.
      consolidation: The device that splits the input and merges results.
    """

    towers: tuple[Device, ...]
    parameters: tuple[Device, ...]
    consolidation: Device

    def __str__(self) -> str:
        """Returns the plan as one line for a terminal."""
        towers = " ".join(self.towers)
        noun = "tower" if len(self.towers) == 1 else "towers"
        return f"{len(self.towers)} {noun}: {towers}   variables on {' '.join(self.parameters)}"


def canonical_device(name: str) -> Device:
    """Returns the full form of a device name: `gpu:0` and `/GPU:0` give `/device:GPU:0`.

    Raises:
      ValueError: The name is not that of a device.
    """
    try:
        spec = v1.DeviceSpec.from_string(name)
    except (AttributeError, TypeError, ValueError) as error:
        raise _not_a_device(name) from error
    if spec.device_type is None:
        raise _not_a_device(name)
    if spec.device_index is None:
        spec = spec.replace(device_index=0)
    return str(spec.to_string())


def local_devices(kind: str | None = None) -> tuple[Device, ...]:
    """Lists the devices of this process.

    Args:
      kind: "GPU", "CPU" or another device type; None means all GPUs or, where there is none,
        all CPUs. Logical devices set up with `tf.config.set_logical_device_configuration` count
        one by one.

    Returns:
      Names such as `/device:CPU:0`, without job and task.
    """
    if kind is None:
        return local_devices("GPU") or local_devices("CPU")
    kind = kind.upper()
    return tuple(f"/device:{kind}:{index}" for index in range(_count_logical_devices(kind)))


def device_plan(devices: Sequence[str] | None = None) -> DevicePlan:
    """Plans towers on the given devices, with variables on the CPU they share.

    Variables of a single GPU tower stay on that GPU.

    Args:
      devices: One name for each tower; None or empty means every local GPU or, with none, every
        local CPU.

    Raises:
      TypeError: `devices` is a single string.
      ValueError: A name is not that of a device, or this process has no such device.
    """
    if isinstance(devices, str):
        raise TypeError(
            f"devices must be a list of device names, one for each tower; got the string "
            f"{devices!r}. Write devices=[{devices!r}]."
        )
    towers = tuple(canonical_device(name) for name in devices or local_devices())
    for name in towers:
        _check_exists(name)
    alone_on_gpu = len(towers) == 1 and "/device:GPU:" in towers[0]
    consolidation = towers[0] if alone_on_gpu else CPU
    return DevicePlan(towers=towers, parameters=(consolidation,), consolidation=consolidation)


class VariablePlacer:
    """Device functions that put state on parameter devices and all else on a worker.

    One placer serves all towers of a graph, since its turn over the parameter devices goes on
    from tower to tower.
    """

    def __init__(self, parameters: Sequence[Device]):
        self._turn: Iterator[Device] = itertools.cycle(parameters)

    def on(self, worker: Device) -> Callable[[Operation], Device]:
        """Returns a function for `v1.device` that computes on `worker` ("" leaves that open).

        Fields of a device that are set inside the scope win over those given here.
        """

        def place(operation: Operation) -> Device:
            device = next(self._turn) if operation.type in VARIABLE_OPS else worker
            inner = tf.DeviceSpec.from_string(operation.device or "")
            return str(tf.DeviceSpec.from_string(device).make_merged_spec(inner).to_string())

        return place


def _count_logical_devices(kind: str) -> int:
    count = 0
    for physical in tf.config.get_visible_devices(kind):
        logical = tf.config.get_logical_device_configuration(physical)
        count += len(logical) if logical else 1
    return count


def _check_exists(name: Device) -> None:
    spec = v1.DeviceSpec.from_string(name)
    if spec.job not in (None, "localhost"):
        return  # A device of a cluster: only the session that reaches the cluster can tell.
    present = local_devices(spec.device_type)
    if f"/device:{spec.device_type}:{spec.device_index}" in present:
        return
    have = ", ".join(local_devices("GPU") + local_devices("CPU"))
    hint = ""
    if spec.device_type == "CPU":
        hint = (
            " More logical CPU devices come from tf.config.set_logical_device_configuration, "
            "called before TensorFlow is first used."
        )
    raise ValueError(f"Cannot put a tower on {name}: this process has {have}.{hint}")


def _not_a_device(name: object) -> ValueError:
    return ValueError(
        f"Not a device: {name!r}. Accepted are names such as '/device:GPU:0', '/gpu:0' or 'CPU:1'."
    )
