"""Devices: which ones this process has, and which one each operation goes to.

Owns the names of devices, the plan that says where towers compute and where variables live, and
the device function that carries the plan out. Does not build any model. `replicate` asks for a
plan when a `model_fn` is wrapped; clones of `model_deploy` follow the same device function.

Looking devices up here never makes a GPU context, so no GPU memory is taken by asking.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

import tensorflow as tf

from model_deploy._types import Device, Operation, VariablePlacement

v1 = tf.compat.v1

CPU = "/device:CPU:0"

SharedPlacement: TypeAlias = Literal["local", "round_robin"]
"""Where the variables that towers share live: together, or on the towers' devices in turn."""

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

SUMMARY_OPS = frozenset(
    {
        "AudioSummary",
        "AudioSummaryV2",
        "HistogramSummary",
        "ImageSummary",
        "MergeSummary",
        "ScalarSummary",
        "TensorSummary",
        "TensorSummaryV2",
    }
)
"""Types of the operations that write summaries; they exist on CPUs only."""

VARIABLE_PLACEMENTS: tuple[VariablePlacement, ...] = ("round_robin", "by_bytes")


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


def device_plan(
    devices: Sequence[str] | None = None, variables: SharedPlacement = "local"
) -> DevicePlan:
    """Plans towers on the given devices.

    Args:
      devices: One name for each tower; None or empty means every local GPU or, with none, every
        local CPU.
      variables: "local" keeps them on the CPU that all towers share, or on the GPU if there is one
        tower and it is there; "round_robin" puts them on the towers' devices in turn.

    Raises:
      TypeError: `devices` is a single string.
      ValueError: A name is not that of a device, this process has no such device, or `variables`
        is unknown.
    """
    if variables not in get_args(SharedPlacement):
        raise ValueError(
            f"variables must be one of {get_args(SharedPlacement)}, got {variables!r}."
        )
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
    parameters = towers if variables == "round_robin" else (consolidation,)
    return DevicePlan(towers=towers, parameters=parameters, consolidation=consolidation)


class VariablePlacer:
    """Device functions that put state on parameter devices and all else on a worker.

    One placer serves all copies of a model in a graph, since its choice among the parameter devices
    goes on from copy to copy. Graphs that make the same variables in the same order, as those of
    the replicas of a cluster, get the same placement.
    """

    def __init__(
        self, parameters: Sequence[Device], placement: VariablePlacement = "round_robin"
    ) -> None:
        """Starts with nothing on any device.

        Args:
          parameters: The devices that hold variables.
          placement: "round_robin" takes them in turn; "by_bytes" takes the one that holds the
            fewest bytes so far, the first of several. Lookup tables, and variables whose shape the
            graph does not know, count as 0 bytes.

        Raises:
          ValueError: `placement` is unknown.
        """
        if placement not in VARIABLE_PLACEMENTS:
            raise ValueError(
                f"Cannot place variables {placement!r}: variable placement is one of "
                f"{', '.join(map(repr, VARIABLE_PLACEMENTS))}."
            )
        self._parameters = tuple(parameters)
        self._jobs = {tf.DeviceSpec.from_string(device).job for device in self._parameters}
        self._loads = [0] * len(self._parameters)
        self._by_bytes = placement == "by_bytes"

    def on(self, worker: Device) -> Callable[[Operation], Device]:
        """Returns a function for `v1.device` that computes on `worker` ("" leaves that open).

        Summaries of a worker that is no CPU are written on its first CPU. Fields of a device that
        are set inside the scope win over those given here. State that the scope puts on another job
        than that of the parameters, as local variables, is on the worker's CPU.
        """
        cpu = _cpu_beside(worker)

        def place(operation: Operation) -> Device:
            kind = operation.type
            if kind in VARIABLE_OPS and not self._is_on_another_job(operation.device):
                return completed(operation.device, self._next(operation))
            is_for_cpu = kind in SUMMARY_OPS or kind in VARIABLE_OPS
            return completed(operation.device, cpu if is_for_cpu else worker)

        return place

    def _is_on_another_job(self, device: Device) -> bool:
        job = tf.DeviceSpec.from_string(device).job if device else None
        return job is not None and None not in self._jobs and job not in self._jobs

    def _next(self, operation: Operation) -> Device:
        """Takes the device with the least load; with loads of 1 that is each in turn."""
        index = self._loads.index(min(self._loads))
        self._loads[index] += _state_bytes(operation) if self._by_bytes else 1
        return self._parameters[index]


@functools.lru_cache(maxsize=1024)
def completed(inner: Device, outer: Device) -> Device:
    """Returns a device whose fields come from `inner`, and from `outer` where that leaves them out.

    Remembered, since every operation of a graph asks.
    """
    merged = tf.DeviceSpec.from_string(outer).make_merged_spec(tf.DeviceSpec.from_string(inner))
    return str(merged.to_string())


def _cpu_beside(worker: Device) -> Device:
    """The CPU that writes the summaries of what `worker` computes."""
    spec = tf.DeviceSpec.from_string(worker)
    if spec.device_type in (None, "CPU"):
        return worker
    return str(spec.replace(device_type="CPU", device_index=0).to_string())


def _state_bytes(operation: Operation) -> int:
    """Bytes that a variable takes, from the attributes of its operation; 0 if they do not say."""
    attributes = operation.node_def.attr
    if "shape" not in attributes or "dtype" not in attributes:
        return 0
    elements = tf.TensorShape(operation.get_attr("shape")).num_elements()
    return (elements or 0) * int(operation.get_attr("dtype").size)


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
