"""Devices: the devices of this process, and the placement of operations on them.

This module holds the names of devices, the plan of towers and variables (`DevicePlan`), and the
device function that implements it (`VariablePlacer`). It builds no model. `replicate` makes a plan
when it wraps a `model_fn`; the clones of `model_deploy` use the same device function.

Looking up devices never creates a GPU context, so it takes no GPU memory.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

import tensorflow as tf

from model_deploy._types import Device, Operation, VariablePlacement
from model_deploy.arguments import check_sequence, check_type

v1 = tf.compat.v1

CPU = "/device:CPU:0"

SharedPlacement: TypeAlias = Literal["local", "round_robin"]
"""Placement of shared variables: on one device, or on the towers' devices in turn."""

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
    """Devices of the parts of a replicated model.

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
      ValueError: The name does not name a device.
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
        all CPUs. Logical devices of `tf.config.set_logical_device_configuration` count as separate
        devices.

    Returns:
      Names such as `/device:CPU:0`, without job and task.

    Raises:
      TypeError: `kind` is no string.
    """
    if kind is None:
        return local_devices("GPU") or local_devices("CPU")
    check_type("list devices", "kind", kind, isinstance(kind, str), '"GPU", "CPU" or None')
    kind = kind.upper()
    return tuple(f"/device:{kind}:{index}" for index in range(_count_logical_devices(kind)))


def device_plan(
    devices: Sequence[str] | None = None, variables: SharedPlacement = "local"
) -> DevicePlan:
    """Plans towers on the given devices.

    Args:
      devices: One name for each tower. None or empty means every local GPU or, without GPUs, every
        local CPU.
      variables: "local" keeps variables on the CPU, or on the GPU of a single tower;
        "round_robin" puts them on the towers' devices in turn.

    Raises:
      TypeError: `devices` is a single string, or no list.
      ValueError: A name does not name a device, this process has no such device, or `variables`
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
    check_sequence("plan devices", "devices", devices or (), "a list of device names, or None")
    towers = tuple(canonical_device(name) for name in devices or local_devices())
    for name in towers:
        _check_exists(name)
    alone_on_gpu = len(towers) == 1 and "/device:GPU:" in towers[0]
    consolidation = towers[0] if alone_on_gpu else CPU
    parameters = towers if variables == "round_robin" else (consolidation,)
    return DevicePlan(towers=towers, parameters=parameters, consolidation=consolidation)


class VariablePlacer:
    """Makes device functions that put variables on parameter devices and the rest on a worker.

    Use one placer for all copies of a model in a graph: it remembers the load of each parameter
    device from copy to copy. Graphs that make the same variables in the same order, such as those
    of the replicas of a cluster, get the same placement.
    """

    def __init__(
        self, parameters: Sequence[Device], placement: VariablePlacement = "round_robin"
    ) -> None:
        """Starts with empty devices.

        Args:
          parameters: The devices that hold variables.
          placement: "round_robin" takes the devices in turn; "by_bytes" takes the first of those
            that hold the fewest bytes so far. Lookup tables and variables of unknown shape count as
            0 bytes.

        Raises:
          ValueError: `placement` is unknown.
          TypeError: `parameters` is no list.
        """
        if placement not in VARIABLE_PLACEMENTS:
            raise ValueError(
                f"Cannot place variables {placement!r}: variable placement is one of "
                f"{', '.join(map(repr, VARIABLE_PLACEMENTS))}."
            )
        check_sequence("place variables", "parameters", parameters, "a list of device names")
        self._parameters = tuple(parameters)
        self._jobs = {tf.DeviceSpec.from_string(device).job for device in self._parameters}
        self._loads = [0] * len(self._parameters)
        self._by_bytes = placement == "by_bytes"

    def on(self, worker: Device) -> Callable[[Operation], Device]:
        """Returns a device function for `v1.device`.

        Summaries are written on the worker's first CPU. Device fields that are set inside the scope
        take precedence. Variables that the scope puts on a job other than that of the parameters,
        such as local variables, go to the worker's CPU.

        Args:
          worker: Device for all operations other than variables; "" leaves it open.
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
        """Returns the device with the least load, and adds the operation to its load."""
        index = self._loads.index(min(self._loads))
        self._loads[index] += _state_bytes(operation) if self._by_bytes else 1
        return self._parameters[index]


@functools.lru_cache(maxsize=1024)
def completed(inner: Device, outer: Device) -> Device:
    """Returns `inner` with its missing fields filled in from `outer`.

    Results are cached, since this is called for every operation of a graph.
    """
    merged = tf.DeviceSpec.from_string(outer).make_merged_spec(tf.DeviceSpec.from_string(inner))
    return str(merged.to_string())


def _cpu_beside(worker: Device) -> Device:
    """Returns the CPU that writes the summaries of a worker."""
    spec = tf.DeviceSpec.from_string(worker)
    if spec.device_type in (None, "CPU"):
        return worker
    return str(spec.replace(device_type="CPU", device_index=0).to_string())


def _state_bytes(operation: Operation) -> int:
    """Returns the size of a variable in bytes, or 0 if its operation does not tell."""
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
        return  # A device of a cluster: only the session can check it.
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
